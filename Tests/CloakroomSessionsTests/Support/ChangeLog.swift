import CloakroomCore
import Synchronization

@testable import CloakroomSessions

/// What a record store told, as a stream of events to wait for.
final class ChangeLog: RecordChanges {
    enum Event: Sendable, Equatable {
        case link(isUp: Bool)
        case changed(SessionID)
        case allChanged
        case expired(idle: Int, absolute: Int)
    }

    let events: AsyncStream<Event>
    private let told: AsyncStream<Event>.Continuation

    init() {
        (events, told) = AsyncStream.makeStream()
    }

    func linkChanged(isUp: Bool) { told.yield(.link(isUp: isUp)) }
    func changed(_ id: SessionID) { told.yield(.changed(id)) }
    func allChanged() { told.yield(.allChanged) }
    func expired(idle: Int, absolute: Int) { told.yield(.expired(idle: idle, absolute: absolute)) }

    /// Waits until a session was changed, or may have been.
    func waitForChange(of id: SessionID) async {
        for await event in events where event == .changed(id) || event == .allChanged { return }
    }

    /// Waits until the link stands.
    func waitForLink() async {
        for await event in events where event == .link(isUp: true) { return }
    }
}
