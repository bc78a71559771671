"""Tools of LangChain's MCP adapters, called as a LangChain or LangGraph agent calls them."""

import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient
from lines import answer_tools

tools = {}


async def connect(url):
    server = {"transport": "streamable_http", "url": url}
    loaded = await MultiServerMCPClient({"payments": server}).get_tools()
    tools.update({tool.name: tool for tool in loaded})
    return list(tools)


async def call(tool, arguments):
    request = {"type": "tool_call", "id": "c1", "name": tool, "args": arguments}
    message = await tools[tool].ainvoke(request)
    return message.text


asyncio.run(answer_tools(connect, call))
