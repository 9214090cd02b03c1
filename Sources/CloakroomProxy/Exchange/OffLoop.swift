import DequeModule
import NIOCore
import NIOPosix
import Synchronization
import Tracing

/// Runs asynchronous work off an event loop and returns to that loop. The work limits its own duration and always
/// completes.
enum OffLoop {
    /// - Parameters:
    ///   - snapshot: Retained until the work is done, even if the client disconnects.
    ///   - span: Parent of the work's spans; `nil` if they are not sampled.
    ///   - executor: Where the work runs.
    ///   - work: Runs in its own task.
    ///   - resume: Called on the event loop with the result.
    static func run<Result: Sendable>(
        on eventLoop: any EventLoop, snapshot: LoopSnapshot, span: ServiceContext?, executor: any TaskExecutor,
        work: @escaping @Sendable () async -> Result, resume: @escaping (Result) -> Void
    ) {
        snapshot.retain()
        let bound = NIOLoopBound((snapshot: snapshot, resume: resume), eventLoop: eventLoop)
        Task(executorPreference: executor) {
            let result =
                if let span { await ServiceContext.withValue(span) { await work() } } else { await work() }
            eventLoop.execute {
                bound.value.resume(result)
                bound.value.snapshot.release()
            }
        }
    }
}

/// Runs tasks on one of the process's common event loops, which serve no client but the calls to identity upstreams and
/// stores. There a task continues on the thread that has received the result of its call: each other thread has to be
/// woken, which costs more than most steps of the work.
package final class EventLoopExecutor: TaskExecutor {
    private static let all = MultiThreadedEventLoopGroup.singleton.makeIterator().map(EventLoopExecutor.init)

    /// How long jobs run before the loop reads from its channels.
    private static let turn = TimeAmount.milliseconds(1)
    private static let pause = TimeAmount.microseconds(100)

    private let eventLoop: any EventLoop
    private let jobs = Mutex<(waiting: Deque<UnownedJob>, isScheduled: Bool)>((Deque(), false))

    private init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// The executor for the work of an event loop with this number. It is always the same one, because it has the idle
    /// connections of earlier calls.
    static func forLoop(_ number: Int) -> EventLoopExecutor { all[number % all.count] }

    /// That of the current thread; on other threads any.
    package static var current: EventLoopExecutor {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.any()
        return all.first { $0.eventLoop === eventLoop } ?? all[0]
    }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let isFirst = jobs.withLock { jobs in
            defer { jobs.isScheduled = true }
            jobs.waiting.append(job)
            return !jobs.isScheduled
        }
        if isFirst { eventLoop.execute { self.run() } }
    }

    /// Runs jobs for a turn. An event loop runs all that it is to execute, also what comes meanwhile, before it reads from a
    /// channel: clients that always cause further jobs would keep identity calls, stores and the admin listener waiting.
    private func run() {
        let end = NIODeadline.now() + Self.turn
        while let job = next() {
            job.runSynchronously(on: asUnownedTaskExecutor())
            guard NIODeadline.now() < end else {
                // What is due at once would run before the channels are read, and so would what the jobs have caused.
                return eventLoop.execute { _ = self.eventLoop.scheduleTask(in: Self.pause) { self.run() } }
            }
        }
    }

    private func next() -> UnownedJob? {
        jobs.withLock { jobs in
            jobs.isScheduled = !jobs.waiting.isEmpty
            return jobs.waiting.popFirst()
        }
    }

    /// Waits for a duration. `Task.sleep` leaves a timer behind when its task is cancelled, which wakes a thread later.
    /// - Throws: If its task is cancelled.
    package static func sleep(for duration: Duration) async throws {
        let timer = MultiThreadedEventLoopGroup.singleton.any().scheduleTask(in: TimeAmount(duration)) {}
        try await withTaskCancellationHandler {
            try await timer.futureResult.get()
        } onCancel: {
            timer.cancel()
        }
    }
}
