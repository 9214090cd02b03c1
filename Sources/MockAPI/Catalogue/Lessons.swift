extension Lesson {
    /// All lessons of the course.
    static let all = [
        // The language.
        Lesson(
            title: "Values First", duration: 279,
            excerpt: "Why a struct is the first thing to reach for, and the day you will need a class after all."),
        Lesson(
            title: "Enums That Carry Weight", duration: 341,
            excerpt: "Put the data into the case it belongs to, and watch half of your optionals disappear."),
        Lesson(
            title: "Optionals without Fear", duration: 312,
            excerpt: "Binding, chaining and falling back: three ways to say maybe, and none of them is a bang."),
        Lesson(
            title: "Errors as Values", duration: 405,
            excerpt: "Typed throws, small error structs, and a table that says what each of them means to a caller."),
        Lesson(
            title: "Generics by Example", duration: 467,
            excerpt: "We write the same function three times, get tired of it, and let the compiler write the fourth."),
        Lesson(
            title: "Protocols and Their Cost", duration: 388,
            excerpt: "What some and any do to a call, measured, and when the difference is worth a thought."),
        Lesson(
            title: "Strings Are Not Arrays", duration: 296,
            excerpt: "Characters, scalars and bytes of one short word, and why counting them is hard."),
        Lesson(
            title: "Ownership in Practice", duration: 523,
            excerpt: "Borrowing, consuming, and a file handle that cannot be closed twice because the types forbid it."),
        // Concurrency.
        Lesson(
            title: "Await, Explained", duration: 354,
            excerpt: "What really happens at a suspension point, drawn with two threads and a pile of index cards."),
        Lesson(
            title: "Structured Tasks", duration: 431,
            excerpt: "A task group that never leaks a child, and a deadline that reaches all the way down."),
        Lesson(
            title: "Actors at Work", duration: 478,
            excerpt: "An actor for a bank, a bug that no data race explains, and the word for it: reentrancy."),
        Lesson(
            title: "Sendable from Scratch", duration: 502,
            excerpt: "From a wall of warnings to none, by changing where things live and not by silencing anybody."),
        Lesson(
            title: "Async Sequences", duration: 367,
            excerpt: "Read a file line by line, stop in the middle, and find out who cleans up behind you."),
        Lesson(
            title: "Cancellation Is a Request", duration: 289,
            excerpt: "Nobody kills a task. How to ask one politely, and how to write one that listens."),
        Lesson(
            title: "Locks Are Fine", duration: 326,
            excerpt: "A mutex around three lines beats an actor around a dictionary. We measure both and then choose."),
        Lesson(
            title: "Testing Time", duration: 318,
            excerpt: "Pass the clock in, and an hour of waiting becomes a test that runs in a millisecond."),
        // The server.
        Lesson(
            title: "Bytes on the Wire", duration: 541,
            excerpt: "We speak HTTP by hand over a plain socket, one request, every byte of it explained."),
        Lesson(
            title: "Event Loops", duration: 449,
            excerpt: "One thread, ten thousand connections, and the one thing you must never do in between."),
        Lesson(
            title: "Backpressure", duration: 412,
            excerpt: "A slow reader, a fast writer and a server out of memory: the story, and its happy ending."),
        Lesson(
            title: "State Machines You Can Read", duration: 486,
            excerpt: "Events in, actions out, and a test that reads like a script for a very short play."),
        Lesson(
            title: "Cookies and Sessions", duration: 437,
            excerpt: "What to put into a cookie (nothing, nearly) and where to keep the rest of it."),
        Lesson(
            title: "Tokens That Rotate", duration: 459,
            excerpt: "A refresh token is good once. We build the ledger that notices when it comes back."),
        Lesson(
            title: "Graceful Shutdown", duration: 333,
            excerpt: "Stop accepting, finish what was begun, close the books: a server that leaves without a trace."),
        Lesson(
            title: "Logs, Metrics, Traces", duration: 395,
            excerpt: "Three questions an operator asks at three in the morning, and which tool answers which."),
    ]
}
