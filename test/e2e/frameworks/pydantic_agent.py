"""Pydantic AI with a scripted model: it calls one tool, and answers with the tool's result."""

import asyncio

from lines import answer_tools
from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.function import FunctionModel

toolset = None


async def connect(url):
    global toolset
    toolset = MCPToolset(url, tool_error_behavior="failed")
    async with toolset:
        return [tool.name for tool in await toolset.list_tools()]


async def call(tool, arguments):
    def answer(messages, info):
        last = messages[-1].parts[-1]
        if last.part_kind == "user-prompt":
            return ModelResponse(parts=[ToolCallPart(tool, arguments)])
        return ModelResponse(parts=[TextPart(str(last.content))])

    agent = Agent(FunctionModel(answer), toolsets=[toolset])
    async with agent:
        return (await agent.run("go")).output


asyncio.run(answer_tools(connect, call))
