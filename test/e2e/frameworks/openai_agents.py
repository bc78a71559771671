"""The OpenAI Agents SDK with a scripted model: it calls one tool, and answers with the tool's result."""

import asyncio
import json

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from agents.mcp import MCPServerStreamableHttp
from lines import answer_tools
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


class ScriptedModel(Model):
    def __init__(self, tool, arguments):
        self.call = ResponseFunctionToolCall(
            type="function_call", call_id="c1", name=tool, arguments=json.dumps(arguments)
        )

    async def get_response(self, system_instructions, input, *args, **kwargs):
        results = [] if isinstance(input, str) else [
            item for item in input if item.get("type") == "function_call_output"
        ]
        output = message(results[-1]["output"]) if results else self.call
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def message(output):
    text = output if isinstance(output, str) else output[0]["text"]
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=[part]
    )


server = None


async def connect(url):
    global server
    server = MCPServerStreamableHttp({"url": url}, client_session_timeout_seconds=30)
    await server.connect()
    return [tool.name for tool in await server.list_tools()]


async def call(tool, arguments):
    agent = Agent(name="agent", model=ScriptedModel(tool, arguments), mcp_servers=[server])
    result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
    return result.final_output


async def main():
    await answer_tools(connect, call)
    if server is not None:
        await server.cleanup()


asyncio.run(main())
