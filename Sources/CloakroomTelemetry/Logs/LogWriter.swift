import DequeModule
import Dispatch
import Foundation
import Glibc
import Logging
import Synchronization

/// Writes log lines to a file descriptor on a dedicated thread, so event loops and tasks never wait for a slow reader.
/// Lines beyond the buffer limit are dropped and counted.
///
/// An event, such as an audit line, is dropped only if there is no buffered traffic line to drop instead: traffic lines
/// cannot use the last ``eventReserve`` bytes of the buffer and are evicted if that is not enough.
///
/// The writer's thread retains it until ``shutdown(within:)``.
///
/// Folder `Logs/`: formats log and audit lines, and decides which lines are dropped if the output is too slow.
public final class LogWriter: Sendable {
    /// The category of lines, which determines the order of dropping.
    public enum LineKind: Sendable {
        /// Access log, spans, and log lines of level `info` and below: proportional to traffic.
        case traffic
        /// Audit lines, and all other log lines of level `notice` and above.
        case event
    }

    /// The bytes reserved for events, beyond the limit of all lines.
    public static let eventReserve = 1 << 20
    /// The size of one write. Bytes being written cannot be evicted.
    private static let chunkSize = 256 << 10

    struct Batch {
        let bytes: [UInt8]
        let lines: Int
        let kind: LineKind
    }

    struct State {
        var waiting = Deque<Batch>()
        /// Bytes accepted and not yet written, including those being written.
        var pendingBytes = 0
        /// Number of buffered batches of traffic lines.
        var waitingTraffic = 0
        /// Dropped events not yet reported by a line.
        var unreportedEvents = 0
        var isClosing = false
    }

    private let state = Mutex(State())
    private let work = DispatchSemaphore(value: 0)
    private let finished = DispatchSemaphore(value: 0)
    private let isAbandoned = Atomic<Bool>(false)
    private let output: FileDescriptorOutput
    private let limit: Int
    private let dropped: CounterHandle
    private let droppedEvents: CounterHandle
    private let notice: @Sendable (_ events: Int) -> [UInt8]

    /// Starts the thread. From then on SIGPIPE is ignored in the whole process, so a closed reader does not terminate
    /// it.
    ///
    /// - Parameters:
    ///   - fileDescriptor: The output, standard output by default. The caller closes it after ``shutdown(within:)``.
    ///   - pendingLimit: The maximum number of buffered bytes, in addition to ``eventReserve``.
    ///   - dropped: Counts the dropped traffic lines.
    ///   - droppedEvents: Counts the dropped events; `nil` counts them with the traffic lines.
    ///   - notice: Renders the line that reports dropped events once the output accepts lines again.
    public init(
        fileDescriptor: Int32 = 1, pendingLimit: Int = 4 << 20, dropped: CounterHandle,
        droppedEvents: CounterHandle? = nil, notice: @escaping @Sendable (_ events: Int) -> [UInt8] = { _ in [] }
    ) {
        _ = signal(SIGPIPE, SIG_IGN)
        output = FileDescriptorOutput(fileDescriptor: fileDescriptor)
        limit = pendingLimit
        self.dropped = dropped
        self.droppedEvents = droppedEvents ?? dropped
        self.notice = notice
        let thread = Thread { [self] in run() }
        thread.name = "log-writer"
        thread.start()
    }

    /// Submits whole lines, each with its line feed. Never blocks on the output.
    public func submit(bytes: [UInt8], lines: Int, kind: LineKind = .traffic) {
        let (accepted, wasIdle, evicted) = state.withLock { state in
            guard !state.isClosing else { return (false, false, 0) }
            let room = kind == .event ? limit + Self.eventReserve : limit
            let wasIdle = state.waiting.isEmpty
            var evicted = 0
            if state.pendingBytes + bytes.count > room {
                // Evicts all at once, so that the next events need no search.
                if kind == .event, state.waitingTraffic > 0 { evicted = state.evictTraffic() }
                guard state.pendingBytes + bytes.count <= room else {
                    if kind == .event { state.unreportedEvents += lines }
                    return (false, false, evicted)
                }
            }
            state.waiting.append(Batch(bytes: bytes, lines: lines, kind: kind))
            if kind == .traffic { state.waitingTraffic += 1 }
            state.pendingBytes += bytes.count
            return (true, wasIdle, evicted)
        }
        if wasIdle { work.signal() }
        if evicted > 0 { dropped.increment(by: Int64(evicted)) }
        if !accepted { counter(kind).increment(by: Int64(lines)) }
    }

    private func counter(_ kind: LineKind) -> CounterHandle { kind == .event ? droppedEvents : dropped }

    /// Flushes the buffer and stops the thread. If the output blocks longer than the limit, the remaining lines are
    /// dropped. Later lines are not accepted. Blocks for at most the limit; can be called again.
    ///
    /// - Returns: Whether the thread stopped in time.
    @discardableResult
    public func shutdown(within bound: Duration = .seconds(2)) -> Bool {
        state.withLock { $0.isClosing = true }
        work.signal()
        let (seconds, attoseconds) = bound.components
        let wait = DispatchTimeInterval.nanoseconds(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
        guard finished.wait(timeout: .now() + wait) == .success else {
            isAbandoned.store(true, ordering: .relaxed)
            return false
        }
        // Later calls get the same result.
        finished.signal()
        return true
    }

    private func run() {
        while true {
            work.wait()
            while let batch = nextBatch() {
                let written = write(batch)
                let lost = state.withLock { state in
                    state.pendingBytes -= batch.bytes.count
                    // Written only after the output accepts lines again; otherwise this line would be lost too.
                    guard written == batch.bytes.count else { return 0 }
                    defer { state.unreportedEvents = 0 }
                    return state.unreportedEvents
                }
                if lost > 0 { _ = output.write(notice(lost), isAbandoned: outputIsAbandoned) }
            }
            if state.withLock({ $0.isClosing && $0.waiting.isEmpty }) { break }
        }
        finished.signal()
    }

    private func write(_ piece: Chunk) -> Int {
        let written = output.write(piece.bytes, isAbandoned: outputIsAbandoned)
        guard written < piece.bytes.count else { return written }
        // A line that is cut off counts as lost.
        var end = 0
        for batch in piece.batches {
            let start = end
            end += batch.bytes.count
            guard written < end else { continue }
            let rest = batch.bytes[max(0, written - start)...]
            counter(batch.kind).increment(by: Int64(rest.count { $0 == UInt8(ascii: "\n") }))
        }
        return written
    }

    private func outputIsAbandoned() -> Bool { isAbandoned.load(ordering: .relaxed) }

    /// The bytes of one write.
    private struct Chunk {
        var bytes: [UInt8] = []
        var batches: [Batch] = []
    }

    /// The oldest bytes, up to ``chunkSize`` or one batch: few large writes are cheaper than many small ones.
    private func nextBatch() -> Chunk? {
        let batches = state.withLock { state in
            var batches: [Batch] = []
            var size = 0
            while let batch = state.waiting.first, batches.isEmpty || size + batch.bytes.count <= Self.chunkSize {
                size += batch.bytes.count
                batches.append(state.waiting.removeFirst())
                if batch.kind == .traffic { state.waitingTraffic -= 1 }
            }
            return batches
        }
        guard let first = batches.first else { return nil }
        return Chunk(bytes: batches.count == 1 ? first.bytes : batches.flatMap(\.bytes), batches: batches)
    }
}

extension LogWriter.State {
    /// Drops the buffered traffic lines.
    /// - Returns: The number of dropped lines.
    fileprivate mutating func evictTraffic() -> Int {
        var lines = 0
        var bytes = 0
        waiting.removeAll { batch in
            guard batch.kind == .traffic else { return false }
            lines += batch.lines
            bytes += batch.bytes.count
            return true
        }
        pendingBytes -= bytes
        waitingTraffic = 0
        return lines
    }
}

/// A file descriptor for log lines. Used by one thread.
struct FileDescriptorOutput: ~Copyable, Sendable {
    let fileDescriptor: Int32
    /// Whether the last write stopped within a line, which the next write must not continue.
    private let isInsideLine = Atomic<Bool>(false)

    /// Writes all bytes; blocks while the descriptor does.
    ///
    /// - Returns: The number of bytes written; fewer than all if the descriptor failed, or if `isAbandoned` returned
    ///   true while a non-blocking descriptor was full.
    func write(_ bytes: [UInt8], isAbandoned: () -> Bool) -> Int {
        guard let last = bytes.last else { return 0 }
        if isInsideLine.load(ordering: .relaxed) {
            guard writeAll([UInt8(ascii: "\n")], isAbandoned) == 1 else { return 0 }
            isInsideLine.store(false, ordering: .relaxed)
        }
        let written = writeAll(bytes, isAbandoned)
        let end = written == bytes.count ? last : written == 0 ? UInt8(ascii: "\n") : bytes[written - 1]
        isInsideLine.store(end != UInt8(ascii: "\n"), ordering: .relaxed)
        return written
    }

    private func writeAll(_ bytes: [UInt8], _ isAbandoned: () -> Bool) -> Int {
        var written = 0
        while written < bytes.count, !isAbandoned() {
            // The system call takes a pointer.
            let result = bytes.withUnsafeBytes { buffer in
                let rest = UnsafeRawBufferPointer(rebasing: buffer[written...])
                return Glibc.write(fileDescriptor, rest.baseAddress, rest.count)
            }
            if result >= 0 {
                written += result
                continue
            }
            switch errno {
            case EINTR:
                continue
            case EAGAIN:
                var descriptor = pollfd(fd: fileDescriptor, events: Int16(POLLOUT), revents: 0)
                _ = poll(&descriptor, 1, 100)
            default:
                return written
            }
        }
        return written
    }
}

extension LogWriter.LineKind {
    /// Audit lines are written at level `notice` and above.
    init(_ level: Logger.Level) {
        self = level >= .notice ? .event : .traffic
    }
}
