"""Run as a program: a socket that leads to the Docker engine; when it ends, the engine is gone.

Usage: python docker_proxy.py SOCKET
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

ENGINE = "/var/run/docker.sock"


async def main() -> None:
    server = await asyncio.start_unix_server(connect, sys.argv[1])
    await server.serve_forever()


async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    from_engine, to_engine = await asyncio.open_unix_connection(ENGINE)
    await asyncio.gather(copy(reader, to_engine), copy(from_engine, writer))
    for end in (writer, to_engine):
        end.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while block := await reader.read(1 << 16):
            writer.write(block)
            await writer.drain()
        writer.write_eof()


if __name__ == "__main__":
    asyncio.run(main())
