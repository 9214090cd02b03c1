import CloakroomCore
import Synchronization

@testable import CloakroomSessions

/// Records the notifications of a record store as a stream of events.
final class ChangeLog: RecordChangeDelegate {
    enum Event: Sendable, Equatable {
        case link(isUp: Bool)
        case changed(SessionID)
        case allChanged
        case expired(idle: Int, absolute: Int)
    }

    let events: AsyncStream<Event>
    private let recorded: AsyncStream<Event>.Continuation

    init() {
        (events, recorded) = AsyncStream.makeStream()
    }

    func connectionChanged(isUp: Bool) { recorded.yield(.link(isUp: isUp)) }
    func recordChanged(_ id: SessionID) { recorded.yield(.changed(id)) }
    func allRecordsChanged() { recorded.yield(.allChanged) }
    func expired(idle: Int, absolute: Int) { recorded.yield(.expired(idle: idle, absolute: absolute)) }

    /// Waits until a session was changed, or may have been.
    func waitForChange(of id: SessionID) async {
        for await event in events where event == .changed(id) || event == .allChanged { return }
    }

    /// Waits until the store is connected.
    func waitForLink() async {
        for await event in events where event == .link(isUp: true) { return }
    }
}
