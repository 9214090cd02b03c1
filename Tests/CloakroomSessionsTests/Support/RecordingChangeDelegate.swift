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

    private let listener = Mutex<(any RecordChangeDelegate)?>(nil)
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

    /// Forwards the notifications to another receiver from now on.
    func forward(to other: any RecordChangeDelegate) { listener.withLock { $0 = other } }

    func partitionsChanged(_ partitions: [Range<Int>], areTrusted: Bool, afterOutage: Bool) {
        trusted.withLock { trusted in
            for slots in partitions {
                if areTrusted { trusted.formUnion(slots) } else { trusted.subtract(slots) }
            }
        }
        if areTrusted { lastWasAfterOutage.withLock { $0 = afterOutage } }
        add(areTrusted ? .up : .down) {
            $0.partitionsChanged(partitions, areTrusted: areTrusted, afterOutage: afterOutage)
        }
    }

    func partitionsLackWrites(_ partitions: [Range<Int>]) {
        add(.lacksWrites) { $0.partitionsLackWrites(partitions) }
    }

    func recordChanged(_ id: SessionID) {
        add(.changed(id)) { $0.recordChanged(id) }
    }

    func cutoffChanged(_ index: RecordIndex) {
        add(.cutoff(index)) { $0.cutoffChanged(index) }
    }

    func allRecordsChanged() {
        add(.allChanged) { $0.allRecordsChanged() }
    }

    func expired(idle: Int, absolute: Int) {
        add(.expired(idle: idle, absolute: absolute)) { $0.expired(idle: idle, absolute: absolute) }
    }

    private func add(_ event: Event, _ forward: (any RecordChangeDelegate) -> Void) {
        let now = ContinuousClock.now
        recorded.withLock { $0.append((event, now)) }
        continuation.yield(event)
        if let listener = listener.withLock({ $0 }) { forward(listener) }
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
