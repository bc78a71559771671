"""Calls one tool and prints the progress it was told of, and then the result."""

import asyncio
import json
import sys

from mcp import Client


async def main(target, tool):
    progress = []

    async def on_progress(value, total, message):
        progress.append([value, message])

    async with Client(target) as client:
        result = await client.call_tool(tool, {"who": "Grace"}, progress_callback=on_progress)
        answer = result.model_dump(by_alias=True, exclude_none=True, mode="json")
        print(json.dumps({"progress": progress, "result": answer}), flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2]))
