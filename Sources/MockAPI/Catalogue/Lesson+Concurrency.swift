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
