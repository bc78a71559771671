import asyncio
import json
import sys
from contextlib import AsyncExitStack

from mcp import Client, StdioServerParameters


def server(target):
    return StdioServerParameters(**json.loads(target)) if target.startswith("{") else target


async def main():
    stack = AsyncExitStack()
    client = None
    while line := await asyncio.to_thread(sys.stdin.readline):
        what, target, arguments = (line.rstrip("\n").split("\t") + ["", "{}"])[:3]
        if what == "connect":
            client = await stack.enter_async_context(Client(server(target)))
            listed = await client.list_tools()
            print(json.dumps([tool.name for tool in listed.tools]), flush=True)
        elif what == "close":
            await stack.aclose()
            print(flush=True)
        else:
            result = await client.call_tool(target, json.loads(arguments))
            print(result.model_dump_json(by_alias=True, exclude_none=True), flush=True)
    await stack.aclose()


asyncio.run(main())
