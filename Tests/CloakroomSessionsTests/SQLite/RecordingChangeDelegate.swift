import CloakroomCore
import Synchronization

@testable import CloakroomSessions

/// Records the change notifications of a store for tests to await.
final class RecordingChangeDelegate: RecordChangeDelegate {
    enum Event: Sendable, Equatable {
        case link(Bool)
        case changed(SessionID)
        case all
        case expired(idle: Int, absolute: Int)
    }

    private let recorded = Mutex<[Event]>([])
    private let stream: AsyncStream<Event>
    private let continuation: AsyncStream<Event>.Continuation

    init() {
        (stream, continuation) = AsyncStream.makeStream()
    }

    var events: [Event] { recorded.withLock { $0 } }

    /// Waits for this notification; earlier ones that were not awaited are skipped.
    func wait(for event: Event) async {
        for await next in stream where next == event { return }
    }

    func connectionChanged(isUp: Bool) { add(.link(isUp)) }
    func recordChanged(_ id: SessionID) { add(.changed(id)) }
    func allRecordsChanged() { add(.all) }
    func expired(idle: Int, absolute: Int) { add(.expired(idle: idle, absolute: absolute)) }

    private func add(_ event: Event) {
        recorded.withLock { $0.append(event) }
        continuation.yield(event)
    }
}

extension SQLiteRecordStore {
    /// Runs the store while a test runs, which starts when the store is connected.
    func whileRunning(_ body: (RecordingChangeDelegate) async throws -> Void) async throws {
        let spy = RecordingChangeDelegate()
        let running = Task { await run(spy, idleTimeout: .seconds(900)) }
        await spy.wait(for: .link(true))
        do {
            try await body(spy)
        } catch {
            running.cancel()
            await running.value
            throw error
        }
        running.cancel()
        await running.value
    }
}
