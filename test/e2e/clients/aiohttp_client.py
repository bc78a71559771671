import asyncio
import sys

import aiohttp
from lines import JSON, task


async def open_socket(session, url):
    try:
        await session.ws_connect(url)
        return "open"
    except aiohttp.WSServerHandshakeError as error:
        return error.status


async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        while line := await asyncio.to_thread(sys.stdin.readline):
            method, url, body = task(line)
            if method == "WS":
                print(await open_socket(session, url), flush=True)
                continue
            async with session.request(method, url, data=body, headers=JSON) as response:
                location = response.headers.get("location", "")
                print(await response.text(), response.status, location, sep="\t", flush=True)


asyncio.run(main())
