"""Strategies of upstreams. The bytes that count as sent are those of the clients' requests."""

from strategies.clear import head, once, repeat
from strategies.strategy import Strategy

STRATEGIES = [
    Strategy("responses 103 without end", repeat(head(b"/open/interim")), "h1", 20, 20),
    Strategy("response heads of one byte per write", repeat(head(b"/open/split")), "h1", 20, 20),
    Strategy("response heads without end", repeat(head(b"/open/head")), "h1", 20, 20),
    Strategy("response heads of 15 KB", repeat(head(b"/open/limit")), "h1", 20, 20),
    Strategy("response heads of 200 KB", repeat(head(b"/open/oversized")), "h1", 20, 20),
    Strategy("response chunks of one byte, not read", once(head(b"/open/chunks")), "h1", 20, reads=0, returns=False),
    Strategy("response chunks of one byte", once(head(b"/open/chunks")), "h1", 4, returns=False),
    Strategy("response chunks with extensions", repeat(head(b"/open/extensions")), "h1", 20, 20),
    Strategy("response trailers without end", repeat(head(b"/open/trailers")), "h1", 20, 20),
    Strategy("response bodies of a byte per 20 ms", once(head(b"/open/trickle")), "h1", 100, returns=False),
    Strategy("responses that end too early", repeat(head(b"/open/cut")), "h1", 20, 20),
]
