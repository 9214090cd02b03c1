"""A TCP relay with a delay, which stands for a target that is slow, hung (SIGSTOP) or down (kill).

usage: python3 -m trials.relay PORT TARGET_PORT PANEL [CERTIFICATE KEY]

Bytes from the client are forwarded after the delay of the panel. With a certificate, clients connect with TLS, so that a
frozen relay receives no request: the handshake does not complete.
"""

import asyncio
import ssl
import sys

from trials.panel import Panel


async def forward(reader, writer, panel=None):
    try:
        while piece := await reader.read(65_536):
            if panel and panel.delay:
                panel.requests += 1
                await asyncio.sleep(panel.delay / 1e6)
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(port, target, panel, files):
    async def accepted(reader, writer):
        panel.connections += 1
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(forward(reader, other_writer, panel), forward(other_reader, writer))

    context = None
    if files:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
    server = await asyncio.start_server(accepted, "127.0.0.1", port, backlog=1024, ssl=context)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), Panel(sys.argv[3]), sys.argv[4:]))
