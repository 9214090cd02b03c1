import CloakroomTelemetry
import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("Deadlines and ends of long-lived responses")
struct TunnelTests {
    private typealias Tunnel = CloakroomProxy.Tunnel

    private static let second: UInt64 = 1_000_000_000
    private static let endsAt = SessionTime(seconds: 100)

    /// A response that began at 0, by default with an idle timeout of 10 s.
    private static func make(
        _ kind: Tunnel.Kind = .upgraded, hasSession: Bool = true, idleTimeout: UInt64 = 10 * second,
        lifetime: UInt64 = 0, proofLifetime: UInt64 = .max, isOfToken: Bool = false, random: UInt64 = 0
    ) throws -> Tunnel {
        var permit: UpstreamPermit?
        if hasSession {
            let (_, session) = FakeSessions.make(endsAt: endsAt)
            let access = RouteAccess(requiresAuthorization: true, inject: [.bearer], source: session.source)
            let decision = AuthDecision.decide(access, at: 0, now: WallTime(seconds: 0), session: .active(session))
            guard case .forward(let forward) = decision else { throw SessionStoreError(.unavailable) }
            permit = forward
        }
        return Tunnel(
            kind, permit: permit, idleTimeout: idleTimeout, lifetime: lifetime, proofLifetime: proofLifetime,
            isOfToken: isOfToken, maxMessage: 0, random: random, now: 0)
    }

    private static func frame(complete: Bool) -> ByteBuffer { ByteBuffer(bytes: complete ? [0x82, 0] : [0x82]) }

    @Test("Without a session the deadline is the idle timeout, which each transfer postpones")
    func idleTimeout() throws {
        var tunnel = try Self.make(hasSession: false)
        expect(tunnel.deadline, equals: 10 * Self.second)
        tunnel.activity(now: 5 * Self.second)
        expect(tunnel.deadline, equals: 15 * Self.second)
        expect(tunnel.deadlineExpired(now: 10 * Self.second), equals: .continue)
        _ = tunnel.forwardedToUpstream(Self.frame(complete: true), now: 12 * Self.second)
        expect(tunnel.deadline, equals: 22 * Self.second)
        expect(tunnel.deadlineExpired(now: 22 * Self.second), equals: .timeOut)
    }

    @Test("The session is checked every second, and traffic does not postpone it")
    func sessionInterval() throws {
        var tunnel = try Self.make()
        expect(tunnel.deadline, equals: Self.second)
        tunnel.activity(now: Self.second / 2)
        expect(tunnel.deadline, equals: Self.second)
        expect(tunnel.deadlineExpired(now: Self.second), equals: .recheckSession(isUsed: false))
        let (_, session) = FakeSessions.make()
        expect(
            tunnel.sessionLookedUp(.admitted(session, .own), at: SessionTime(seconds: 1), now: Self.second),
            equals: .continue
        )
        expect(tunnel.deadline, equals: 2 * Self.second)
    }

    @Test("If sessions have changed, the session is checked early; without a session nothing happens")
    func changedSessions() throws {
        var tunnel = try Self.make()
        _ = tunnel.forwardedToUpstream(Self.frame(complete: true), now: 0)
        expect(tunnel.sessionsChanged(), equals: .recheckSession(isUsed: true))
        expect(tunnel.deadlineExpired(now: Self.second), equals: .recheckSession(isUsed: false))
        var other = try Self.make(hasSession: false)
        expect(other.sessionsChanged(), equals: .continue)
        expect(other.deadline, equals: 10 * Self.second)
        var ofToken = try Self.make(isOfToken: true)
        expect(ofToken.sessionsChanged(), equals: .continue)
    }

    @Test("Only data of the client uses the session, once per check")
    func clientActivity() throws {
        var tunnel = try Self.make()
        _ = tunnel.forwardedToClient(Self.frame(complete: true))
        expect(tunnel.deadlineExpired(now: Self.second), equals: .recheckSession(isUsed: false))
        _ = tunnel.forwardedToUpstream(Self.frame(complete: true), now: Self.second)
        expect(tunnel.deadlineExpired(now: 2 * Self.second), equals: .recheckSession(isUsed: true))
        expect(tunnel.deadlineExpired(now: 3 * Self.second), equals: .recheckSession(isUsed: false))
    }

    @Test("The response ends with its session; an active session does not outlast the idle timeout")
    func sessionEnd() throws {
        var tunnel = try Self.make()
        let time = SessionTime(seconds: 1)
        expect(
            tunnel.sessionLookedUp(.missing(.revoked), at: time, now: Self.second), equals: .close(.sessionEnded))
        let (_, session) = FakeSessions.make()
        expect(tunnel.sessionLookedUp(.admitted(session, .own), at: time, now: 10 * Self.second), equals: .timeOut)
    }

    @Test("A session that is not cached is loaded once at a time; a store outage does not end the response")
    func sessionLoading() throws {
        var tunnel = try Self.make()
        let time = SessionTime(seconds: 1)
        expect(tunnel.sessionLookedUp(.notCached, at: time, now: Self.second), equals: .loadSession)
        expect(tunnel.sessionLookedUp(.notCached, at: time, now: 2 * Self.second), equals: .continue)
        let (_, session) = FakeSessions.make()
        expect(tunnel.sessionLoaded(.active(session), isOver: false), equals: .continue)
        expect(tunnel.sessionLookedUp(.notCached, at: time, now: 3 * Self.second), equals: .loadSession)
        expect(tunnel.sessionLoaded(.missing(.revoked), isOver: true), equals: .close(.sessionEnded))
    }

    @Test("Rule 142: a response of an access token ends a minute after it was known last that the token is active")
    func unknownToken() throws {
        let time = SessionTime(seconds: 1)
        let (_, session) = FakeSessions.make()
        var tunnel = try Self.make(idleTimeout: 900 * Self.second, isOfToken: true)
        for start in [1, 61] as [UInt64] {
            expect(tunnel.sessionLookedUp(.notCached, at: time, now: start * Self.second), equals: .loadSession)
            expect(tunnel.sessionLoaded(nil, isOver: false), equals: .continue)
            expect(tunnel.sessionLookedUp(.notCached, at: time, now: (start + 59) * Self.second), equals: .loadSession)
            if start == 1 { expect(tunnel.sessionLoaded(.active(session), isOver: false), equals: .continue) }
        }
        // It is looked up as it was stated last.
        expect(tunnel.tokenSession === session)
        // A question without a response yet does not postpone it.
        expect(tunnel.sessionLookedUp(.notCached, at: time, now: 121 * Self.second), equals: .close(.sessionEnded))
        // A store that does not respond ends no session.
        var other = try Self.make(idleTimeout: 900 * Self.second)
        for second in [1, 61, 121] as [UInt64] {
            expect(other.sessionLookedUp(.notCached, at: time, now: second * Self.second), equals: .loadSession)
            expect(other.sessionLoaded(nil, isOver: false), equals: .continue)
        }
    }

    @Test("Rule 119: a session that was bound after the response began ends it too, also while it cannot be loaded")
    func boundLater() throws {
        let (_, session) = FakeSessions.make(device: DeviceBinding(key: [], boundAt: WallTime(seconds: 0)))
        let (_, other) = FakeSessions.make()
        let time = SessionTime(seconds: 1)
        var tunnel = try Self.make(idleTimeout: 900 * Self.second, proofLifetime: 300 * Self.second)
        expect(tunnel.sessionLookedUp(.admitted(other, .own), at: time, now: Self.second), equals: .continue)
        expect(tunnel.deadlineExpired(now: 400 * Self.second), equals: .recheckSession(isUsed: false))
        expect(tunnel.sessionLookedUp(.admitted(session, .own), at: time, now: 400 * Self.second), equals: .continue)
        expect(tunnel.sessionLookedUp(.notCached, at: time, now: 401 * Self.second), equals: .loadSession)
        expect(tunnel.deadlineExpired(now: 402 * Self.second), equals: .close(.sessionEnded))
        // Also if it is loaded each time.
        var loaded = try Self.make(idleTimeout: 900 * Self.second, proofLifetime: 300 * Self.second)
        expect(loaded.sessionLookedUp(.notCached, at: time, now: Self.second), equals: .loadSession)
        expect(loaded.sessionLoaded(.active(session), isOver: false), equals: .continue)
        expect(loaded.deadlineExpired(now: 400 * Self.second), equals: .close(.sessionEnded))
        var early = try Self.make(idleTimeout: 900 * Self.second, proofLifetime: 300 * Self.second)
        expect(early.sessionLookedUp(.admitted(session, .own), at: time, now: Self.second), equals: .continue)
        expect(early.deadlineExpired(now: 299 * Self.second), equals: .recheckSession(isUsed: false))
        expect(early.deadlineExpired(now: 300 * Self.second), equals: .close(.sessionEnded))
    }

    @Test("Identity rule 46: a response to a token with a key ends with the token, and not with the proof of a device")
    func boundToken() throws {
        let key = Array<UInt8>(repeating: 1, count: DeviceBinding.thumbprintLength)
        let (_, session) = FakeSessions.make(device: DeviceBinding(key: key, boundAt: WallTime(seconds: 0)))
        var tunnel = try Self.make(idleTimeout: 900 * Self.second, proofLifetime: 300 * Self.second)
        let time = SessionTime(seconds: 1)
        expect(tunnel.sessionLookedUp(.admitted(session, .own), at: time, now: Self.second), equals: .continue)
        expect(tunnel.deadlineExpired(now: 400 * Self.second), equals: .recheckSession(isUsed: false))
    }

    @Test("A lifetime is ± 10 %; then a frame may end first, for 10 s")
    func lifetime() throws {
        func make(_ kind: Tunnel.Kind = .upgraded, random: UInt64 = 0) throws -> Tunnel {
            try Self.make(
                kind, hasSession: false, idleTimeout: 100 * Self.second, lifetime: 10 * Self.second, random: random)
        }
        try expect(make().deadline, equals: 9 * Self.second)
        try expect(make(random: 2 * Self.second).deadline, equals: 11 * Self.second)
        try expect(make(random: 2 * Self.second + 1).deadline, equals: 9 * Self.second)
        var tunnel = try make()
        tunnel.activity(now: 8 * Self.second)
        expect(tunnel.deadlineExpired(now: 9 * Self.second - 1), equals: .continue)
        expect(tunnel.deadlineExpired(now: 9 * Self.second), equals: .close(.lifetime))
        expect(tunnel.end(.lifetime), equals: .closeFrames(.goingAway, toClient: true, toUpstream: true))
        _ = tunnel.forwardedToClient(Self.frame(complete: false))
        expect(tunnel.deadlineExpired(now: 9 * Self.second), equals: .continue)
        expect(tunnel.deadline, equals: 19 * Self.second)
        expect(!tunnel.hasFinishedLastFrame)
        expect(tunnel.deadlineExpired(now: 19 * Self.second), equals: .close(.lifetime))
        _ = tunnel.forwardedToClient(ByteBuffer(bytes: [0]))
        expect(tunnel.hasFinishedLastFrame)
        expect(tunnel.deadlineExpired(now: 10 * Self.second), equals: .close(.lifetime))
        try expect(make(.eventStream(isEndless: true)).end(.lifetime), equals: .complete)
        // The client waits for the end, and must notice that it is missing.
        try expect(make(.eventStream(isEndless: false)).end(.lifetime), equals: .abort)
    }

    @Test("A changed route is reported as draining, an ended session by its own error")
    func errorTypes() {
        expect(Tunnel.EndReason.lifetime.errorType, equals: .streamLifetime)
        expect(Tunnel.EndReason.messageTooBig.errorType, equals: .bodyTooLarge)
        expect(Tunnel.EndReason.draining.errorType, equals: .draining)
        expect(Tunnel.EndReason.routeChanged.errorType, equals: .routeChanged)
        expect(Tunnel.EndReason.sessionEnded.errorType, equals: .sessionEnded)
    }
}
