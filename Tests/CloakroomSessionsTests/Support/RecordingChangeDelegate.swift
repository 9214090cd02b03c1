import CloakroomCore
import Synchronization
import TestSupport

@testable import CloakroomSessions

/// Records the change notifications of a store for tests to await.
final class RecordingChangeDelegate: RecordChangeDelegate {
    enum Event: Sendable, Hashable {
        case up
        case down
        case changed(SessionID)
        case cutoff(RecordIndex)
        case allChanged
        case lacksWrites
        case expired(idle: Int, absolute: Int)
    }

    private let lastWasAfterOutage = Mutex(false)
    private let trusted = Mutex<Set<Int>>([])
    private let recorded = Mutex<[(event: Event, at: ContinuousClock.Instant)]>([])
    private let stream: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation

    init() {
        (stream, continuation) = AsyncStream.makeStream()
    }

    var events: [Event] { recorded.withLock { $0.map(\.event) } }
    var isUp: Bool { recorded.withLock { $0.last { $0.event == .up || $0.event == .down }?.event == .up } }

    /// The number of partitions that are trusted now. The servers of a cluster are connected one after the other.
    var trustedCount: Int { trusted.withLock(\.count) }

    /// Whether the last established connection was reported as one after an outage.
    var isAfterOutage: Bool { lastWasAfterOutage.withLock { $0 } }

    func count(_ event: Event) -> Int { events.count { $0 == event } }

    /// Waits for the next of these notifications; earlier ones that were not awaited are skipped.
    func wait(for expected: Event...) async {
        for await next in stream where expected.contains(next) { return }
    }

    /// Waits until a notification was received the given number of times.
    /// - Returns: The time of the last one.
    @discardableResult
    func time(of event: Event, count: Int = 1) async throws -> ContinuousClock.Instant {
        try await eventually("\(event) is reported") {
            recorded.withLock { $0.filter { $0.event == event }.dropFirst(count - 1).first?.at }
        }
    }

    /// Waits until this number of partitions is trusted, after the first notification of that, and skips the others.
    func wait(untilTrusted partitions: Int) async throws {
        try await eventually("the store is connected, to all servers") { trustedCount == partitions }
        for _ in 1..<count(.up) { await wait(for: .up) }
    }

    func partitionsChanged(_ partitions: [Range<Int>], areTrusted: Bool, afterOutage: Bool) {
        trusted.withLock { trusted in
            for slots in partitions {
                if areTrusted { trusted.formUnion(slots) } else { trusted.subtract(slots) }
            }
        }
        if areTrusted { lastWasAfterOutage.withLock { $0 = afterOutage } }
        add(areTrusted ? .up : .down)
    }

    func partitionsLackWrites(_ partitions: [Range<Int>]) { add(.lacksWrites) }
    func recordChanged(_ id: SessionID) { add(.changed(id)) }
    func cutoffChanged(_ index: RecordIndex) { add(.cutoff(index)) }
    func allRecordsChanged() { add(.allChanged) }
    func expired(idle: Int, absolute: Int) { add(.expired(idle: idle, absolute: absolute)) }

    private func add(_ event: Event) {
        let now = ContinuousClock.now
        recorded.withLock { $0.append((event, now)) }
        continuation.yield(event)
    }
}

extension SessionRecordStore {
    /// Runs the store while a test runs, which starts when the store is connected.
    func whileRunning(_ body: (RecordingChangeDelegate) async throws -> Void) async throws {
        let changes = RecordingChangeDelegate()
        let running = Task { await run(changes) }
        await changes.wait(for: .up)
        try await stopping {
            running.cancel()
            await running.value
        } after: {
            try await body(changes)
        }
    }
}
