extension Lesson {
    /// The third part of the course: servers.
    static let server = [
        Lesson(
            slug: "bytes-on-the-wire", title: "Bytes on the Wire",
            excerpt: "We speak HTTP by hand over a plain socket, one request, every byte of it explained.",
            duration: 541),
        Lesson(
            slug: "event-loops", title: "Event Loops",
            excerpt: "One thread, ten thousand connections, and the one thing you must never do in between.",
            duration: 449),
        Lesson(
            slug: "backpressure", title: "Backpressure",
            excerpt: "A slow reader, a fast writer and a server out of memory: the story, and its happy ending.",
            duration: 412),
        Lesson(
            slug: "state-machines-you-can-read", title: "State Machines You Can Read",
            excerpt: "Events in, actions out, and a test that reads like a script for a very short play.",
            duration: 486),
        Lesson(
            slug: "cookies-and-sessions", title: "Cookies and Sessions",
            excerpt: "What to put into a cookie (nothing, nearly) and where to keep the rest of it.",
            duration: 437),
        Lesson(
            slug: "tokens-that-rotate", title: "Tokens That Rotate",
            excerpt: "A refresh token is good once. We build the ledger that notices when it comes back.",
            duration: 459),
        Lesson(
            slug: "graceful-shutdown", title: "Graceful Shutdown",
            excerpt: "Stop accepting, finish what was begun, close the books: a server that leaves without a trace.",
            duration: 333),
        Lesson(
            slug: "logs-metrics-traces", title: "Logs, Metrics, Traces",
            excerpt: "Three questions an operator asks at three in the morning, and which tool answers which.",
            duration: 395),
    ]
}
