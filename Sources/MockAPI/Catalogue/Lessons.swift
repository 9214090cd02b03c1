extension Lesson {
    /// The second part of the course: concurrency.
    static let concurrency = [
        Lesson(
            slug: "await-explained", title: "Await, Explained",
            excerpt: "What really happens at a suspension point, drawn with two threads and a pile of index cards.",
            duration: 354),
        Lesson(
            slug: "structured-tasks", title: "Structured Tasks",
            excerpt: "A task group that never leaks a child, and a deadline that reaches all the way down.",
            duration: 431),
        Lesson(
            slug: "actors-at-work", title: "Actors at Work",
            excerpt: "An actor for a bank, a bug that no data race explains, and the word for it: reentrancy.",
            duration: 478),
        Lesson(
            slug: "sendable-from-scratch", title: "Sendable from Scratch",
            excerpt: "From a wall of warnings to none, by changing where things live and not by silencing anybody.",
            duration: 502),
        Lesson(
            slug: "async-sequences", title: "Async Sequences",
            excerpt: "Read a file line by line, stop in the middle, and find out who cleans up behind you.",
            duration: 367),
        Lesson(
            slug: "cancellation-is-a-request", title: "Cancellation Is a Request",
            excerpt: "Nobody kills a task. How to ask one politely, and how to write one that listens.",
            duration: 289),
        Lesson(
            slug: "locks-are-fine", title: "Locks Are Fine",
            excerpt: "A mutex around three lines beats an actor around a dictionary. We measure both and then choose.",
            duration: 326),
        Lesson(
            slug: "testing-time", title: "Testing Time",
            excerpt: "Pass the clock in, and an hour of waiting becomes a test that runs in a millisecond.",
            duration: 318),
    ]
}

extension Lesson {
    /// The first part of the course: the language.
    static let language = [
        Lesson(
            slug: "values-first", title: "Values First",
            excerpt: "Why a struct is the first thing to reach for, and the day you will need a class after all.",
            duration: 279),
        Lesson(
            slug: "enums-that-carry-weight", title: "Enums That Carry Weight",
            excerpt: "Put the data into the case it belongs to, and watch half of your optionals disappear.",
            duration: 341),
        Lesson(
            slug: "optionals-without-fear", title: "Optionals without Fear",
            excerpt: "Binding, chaining and falling back: three ways to say maybe, and none of them is a bang.",
            duration: 312),
        Lesson(
            slug: "errors-as-values", title: "Errors as Values",
            excerpt: "Typed throws, small error structs, and a table that says what each of them means to a caller.",
            duration: 405),
        Lesson(
            slug: "generics-by-example", title: "Generics by Example",
            excerpt: "We write the same function three times, get tired of it, and let the compiler write the fourth.",
            duration: 467),
        Lesson(
            slug: "protocols-and-their-cost", title: "Protocols and Their Cost",
            excerpt: "What some and any do to a call, measured, and when the difference is worth a thought.",
            duration: 388),
        Lesson(
            slug: "strings-are-not-arrays", title: "Strings Are Not Arrays",
            excerpt: "Characters, scalars and bytes of one short word, and why counting them is hard.",
            duration: 296),
        Lesson(
            slug: "ownership-in-practice", title: "Ownership in Practice",
            excerpt: "Borrowing, consuming, and a file handle that cannot be closed twice because the types forbid it.",
            duration: 523),
    ]
}

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
