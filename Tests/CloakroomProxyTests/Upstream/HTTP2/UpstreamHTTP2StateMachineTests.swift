import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("State of an HTTP/2 connection to an upstream")
struct UpstreamHTTP2StateMachineTests {
    private static let second: UInt64 = 1_000_000_000

    private func settled(_ streams: Int = 10, peer: Int? = nil, now: UInt64 = 0) -> UpstreamHTTP2StateMachine {
        var machine = UpstreamHTTP2StateMachine(streams: streams, settleDeadline: 5, idleTimeout: 60 * Self.second)
        _ = machine.settingsReceived(streams: peer, now: now)
        return machine
    }

    /// A connection with one open stream.
    private func serving() -> UpstreamHTTP2StateMachine {
        var machine = settled()
        _ = machine.reserve(now: 0)
        _ = machine.openStream()
        return machine
    }

    @Test("The room is the smallest of the configured limit, the peer's limit and 100 without one")
    func room() {
        expect(settled(10).room, equals: 10)
        expect(settled(10, peer: 3).room, equals: 3)
        expect(settled(1_000).room, equals: 100)
        expect(settled(1_000, peer: 400).room, equals: 400)
        expect(settled(10, peer: 0).room, equals: 0)
    }

    @Test("More streams end than were opened: nothing happens")
    func surplusEnds() {
        var machine = settled(1)
        expect(machine.streamClosed(now: 1), equals: .nothing)
        expect(machine.releaseUnsent(now: 1), equals: .nothing)
        expect(machine.room, equals: 1)
    }

    @Test("A retired connection still sends the heads that are leased, until GOAWAY")
    func retired() {
        var machine = settled()
        _ = machine.reserve(now: 1)
        _ = machine.reserve(now: 1)
        expect(machine.beginClosing(isGoAway: false), equals: .drain)
        expect(machine.beginClosing(isGoAway: false), equals: .nothing)
        expect(machine.room, equals: 0)
        expect(machine.openStream(), equals: 1)
        expect(machine.beginClosing(isGoAway: true), equals: .drain)
        expect(machine.openStream(), equals: nil)
        expect(machine.releaseUnsent(now: 2), equals: .nothing)
        expect(machine.streamClosed(now: 3), equals: .close)
    }

    @Test("A connection that permits no stream is not settled before it permits one")
    func noStreams() {
        var machine = UpstreamHTTP2StateMachine(streams: 5, settleDeadline: 9, idleTimeout: 1)
        expect(machine.settingsReceived(streams: 0, now: 1), equals: .checkRoom)
        expect(machine.room, equals: 0)
        expect(machine.deadline, equals: 9)
        expect(machine.settingsReceived(streams: 2, now: 2), equals: .settled)
        expect(machine.room, equals: 2)
    }

    @Test("An idle connection is closed after the idle timeout, and never probed")
    func idle() {
        var machine = settled(now: 7)
        expect(machine.deadline, equals: 7 + 60 * Self.second)
        expect(machine.reserve(now: 8), equals: true)
        expect(machine.deadline, equals: 8 + 10 * Self.second)
        _ = machine.openStream()
        machine.frameReceived(now: 9)
        _ = machine.streamClosed(now: 9)
        expect(machine.deadline, equals: 9 + 60 * Self.second)
        expect(machine.deadlineExpired(now: machine.deadline), equals: .close)
    }

    @Test("With streams, silence is probed once; the acknowledgement does not end it")
    func silence() {
        var machine = serving()
        machine.frameReceived(now: 4 * Self.second)
        expect(machine.deadlineExpired(now: 10 * Self.second), equals: .nothing)
        expect(machine.deadline, equals: 14 * Self.second)
        expect(machine.deadlineExpired(now: 14 * Self.second), equals: .ping)
        expect(machine.deadline, equals: 19 * Self.second)
        machine.pingAcknowledged(now: 15 * Self.second)
        expect(machine.deadline, equals: .max)
        expect(machine.deadlineExpired(now: 60 * Self.second), equals: .nothing)
        machine.frameReceived(now: 61 * Self.second)
        expect(machine.deadline, equals: 71 * Self.second)
        expect(machine.deadlineExpired(now: 71 * Self.second), equals: .ping)
        expect(machine.deadlineExpired(now: 76 * Self.second), equals: .fail)
        expect(machine.isClosed)
    }

    @Test("A disconnected peer is found although each request ends before the probe")
    func goneWithShortRequests() {
        var machine = settled()
        for request in 0..<5 as Range<UInt64> {
            _ = machine.reserve(now: 2 * request * Self.second)
            _ = machine.openStream()
            _ = machine.streamClosed(now: (2 * request + 1) * Self.second)
        }
        expect(machine.deadline, equals: 10 * Self.second)
        expect(machine.deadlineExpired(now: 10 * Self.second), equals: .ping)
        expect(machine.deadlineExpired(now: 15 * Self.second), equals: .fail)
        var alive = serving()
        _ = alive.streamClosed(now: 1)
        expect(alive.deadlineExpired(now: 10 * Self.second), equals: .ping)
        alive.pingAcknowledged(now: 11 * Self.second)
        expect(alive.deadlineExpired(now: 71 * Self.second), equals: .close)
    }

    @Test("A request next to a quiet stream is probed, although the silence was probed before")
    func goneBesideQuietStream() {
        var machine = serving()
        expect(machine.deadlineExpired(now: 10 * Self.second), equals: .ping)
        machine.pingAcknowledged(now: 11 * Self.second)
        _ = machine.reserve(now: 100 * Self.second)
        _ = machine.openStream()
        expect(machine.deadline, equals: 110 * Self.second)
        expect(machine.deadlineExpired(now: 110 * Self.second), equals: .ping)
        expect(machine.deadlineExpired(now: 115 * Self.second), equals: .fail)
    }

    @Test("Responses that are dropped have one second")
    func draining() {
        var machine = serving()
        machine.draining(now: 2 * Self.second)
        machine.draining(now: 2 * Self.second + 1)
        expect(machine.deadline, equals: 3 * Self.second)
        machine.drainingEnded()
        expect(machine.deadline, equals: 10 * Self.second)
    }

    @Test("At most 20 resets within 4 s")
    func resets() {
        var machine = settled()
        let start = 5 * Self.second
        let allowed = (0..<50).filter { _ in machine.mayReset(now: start) }
        expect(allowed.count, equals: 20)
        expect(machine.mayReset(now: start + 4 * Self.second - 1), equals: false)
        expect(machine.mayReset(now: start + 4 * Self.second), equals: true)
    }

    @Test("Random events keep the counts consistent")
    func randomEvents() {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<200 {
            var machine = settled(5)
            var (unsent, open, limit) = (0, 0, 100)
            for now in 1...300 as ClosedRange<UInt64> {
                switch UInt8.random(in: 0..<6, using: &generator) {
                case 0: if machine.reserve(now: now) { unsent += 1 }
                case 1:
                    if machine.openStream() != nil {
                        unsent -= 1
                        open += 1
                    }
                case 2:
                    _ = machine.streamClosed(now: now)
                    open = max(open - 1, 0)
                case 3:
                    _ = machine.releaseUnsent(now: now)
                    unsent = max(unsent - 1, 0)
                case 4:
                    limit = Int.random(in: 0..<8, using: &generator)
                    _ = machine.settingsReceived(streams: limit, now: now)
                default: machine.frameReceived(now: now)
                }
                expect(machine.streams, equals: unsent + open)
                expect(machine.open, equals: open)
                expect(machine.room, equals: max(min(5, limit) - unsent - open, 0))
            }
        }
    }
}
