import FoundationEssentials
import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import CloakroomCore

/// Sealing without a cipher: a keyed hash over the name and the content.
private struct HashedSealing: CookieSealing {
    private static let hash = KeyedHash(key0: 3, key1: 4)

    func seal(_ content: [UInt8], name: String) -> [UInt8]? {
        Self.hash.hash(Array(name.utf8) + [0] + content).bigEndianBytes + content
    }

    func open(_ sealed: [UInt8], name: String) -> [UInt8]? {
        let content = Array(sealed.dropFirst(8))
        return seal(content, name: name) == sealed ? content : nil
    }
}

private final class EventList: AccountObserver {
    private let events = Mutex<[(event: AccountEvent, origin: AuditContext)]>([])
    var all: [AccountEvent] { events.withLock { $0.map(\.event) } }
    var origins: [AuditContext] { events.withLock { $0.map(\.origin) } }

    func accountEvent(_ event: AccountEvent, from origin: AuditContext) {
        events.withLock { $0.append((event, origin)) }
    }
}

/// A gateway with a session that is bound to a device, and one that is not: `Ask.cookie`.
private struct DeviceFixture {
    let sessions = FakeSessions()
    let observer = EventList()
    let devices: DeviceSessions
    let session: Session
    let ticket: SessionTicket
    /// The `Cookie` lines of the session, without and with its proof.
    let stolen: String
    let cookie: String
    let proof: String

    /// - Parameter isSettling: Whether the session got its key a moment ago.
    init(
        _ mode: DeviceConfiguration.Mode = .auto, isSettling: Bool = false, streams: Duration = .seconds(3_600)
    ) throws {
        var configuration = DeviceConfiguration()
        (configuration.mode, configuration.streams) = (mode, streams)
        devices = try require(DeviceSessions(configuration, sealing: HashedSealing(), observer: observer))
        let now = WallTime(seconds: Int64(Date().timeIntervalSince1970))
        let binding = DeviceBinding(
            key: (0..<64).map { UInt8($0) }, boundAt: isSettling ? now : now - .seconds(7_200))
        (ticket, session) = FakeSessions.make(device: binding, app: "shop")
        stolen = sessions.add((ticket, session))
        proof = try require(devices.proof(for: session.key, binding, until: now + .seconds(600)))
        cookie = "\(stolen); __Host-cloakroom-bound=\(proof)"
    }

    /// - Parameter load: With an empty cache, so that the session has to be loaded.
    func setup(isLoaded: Bool = false) -> GatewaySetup {
        GatewaySetup.serving.with(\.devices, devices).with(
            \.sessions, isLoaded ? FakeSessions(load: .response(.active(session))) : sessions)
    }
}

@Suite("Requests with a session that is bound to a device", .serialized)
struct DeviceTests {
    private static let challenge = "Secure-Session-Challenge: \"…\";id=\"…\""

    @Test("Rule 114: without the proof 401 with a challenge; the upstream sees nothing, and the session is not used")
    func unproven() async throws {
        let fixture = try DeviceFixture()
        let other = try DeviceFixture()
        try await Scenario(
            "unproven", on: fixture.setup(),
            .all(
                [
                    fixture.stolen, "\(fixture.stolen); __Host-cloakroom-bound=\(other.proof)",
                    "\(fixture.cookie); __Host-cloakroom-bound=\(fixture.proof)", "\(fixture.cookie)A",
                    "\(fixture.stolen); __Host-cloakroom-bound=", "\(fixture.stolen); __Host-cloakroom-bound",
                ].map { Ask.get("/private/a", $0) }
                    // What browsers state about a refresh that they have left out is not believed.
                    + [Ask.get("/private/a", fixture.stolen, "Secure-Session-Skipped: quota_exceeded")],
                401, reason: "unproven",
                has: [Self.challenge, "Set-Cookie"], lacks: [fixture.proof, fixture.ticket.cookieValue]),
            sent: []
        ).run()
        expect(fixture.sessions.uses, equals: 0)
        let event = AccountEvent.deviceCheck(.unproven, fixture.session.id)
        expect(fixture.observer.all.count == 7 && fixture.observer.all.allSatisfy { $0 == event })
        expect(fixture.observer.origins.allSatisfy { $0.app == "shop" && $0.isBound })
    }

    @Test("Rule 114: with the proof it is an ordinary session, also over HTTP/2, and after it was loaded")
    func proven() async throws {
        for isLoaded in [false, true] {
            let fixture = try DeviceFixture()
            try await Scenario(
                "proven", on: fixture.setup(isLoaded: isLoaded),
                .ok(Ask.get("/private/a", fixture.cookie)), .ok(Ask.get("/private/a", fixture.cookie)),
                .ask(Ask.get("/private/a", fixture.stolen), 401, reason: "unproven", has: [Self.challenge]),
                sent: [
                    .init(has: ["Authorization: Bearer \(Canary.accessToken)", "Cookie"]),
                    .init(has: ["Authorization: Bearer \(Canary.accessToken)", "Cookie"]),
                ],
                alsoHTTP2: true
            ).run()
            if !isLoaded { expect(fixture.sessions.uses, equals: 4) }
        }
    }

    @Test("Rule 114: the proof of a session is none for another one on the same connection, and the reverse")
    func sameConnection() async throws {
        let fixture = try DeviceFixture()
        let device = try require(fixture.session.device)
        let binding = DeviceBinding(key: device.key, boundAt: device.boundAt)
        let made = FakeSessions.make(device: binding)
        let stolen = fixture.sessions.add(made)
        let end = device.boundAt + .seconds(7_800)
        let proof = try require(fixture.devices.proof(for: made.1.key, binding, until: end))
        let cookie = "\(stolen); __Host-cloakroom-bound=\(proof)"
        try await Scenario(
            "two sessions", on: fixture.setup(), .ok(Ask.get("/private/a", fixture.cookie)),
            .ask(
                Ask.get("/private/a", "\(stolen); __Host-cloakroom-bound=\(fixture.proof)"), 401, reason: "unproven"),
            .ok(Ask.get("/private/a", cookie)),
            .ask(
                Ask.get("/private/a", "\(fixture.stolen); __Host-cloakroom-bound=\(proof)"), 401, reason: "unproven"),
            .ok(Ask.get("/private/a", fixture.cookie)), sent: [.init(), .init(), .init()], alsoHTTP2: true
        ).run()
    }

    @Test("Rule 114: a request without the proof causes no refresh of the tokens")
    func noRefresh() async throws {
        let fixture = try DeviceFixture()
        let made = FakeSessions.make(
            "Bearer stale", refreshToken: "r", accessTokenExpiresAt: WallTime(seconds: 1),
            device: DeviceBinding(key: [1], boundAt: WallTime(seconds: 0)))
        let stolen = fixture.sessions.add(made)
        let refresher = FakeRefresher()
        try await Scenario(
            "stale tokens", on: fixture.setup().with(\.refresher, refresher),
            .ask(Ask.get("/private/a", stolen), 401, reason: "unproven"),
            .ask(Ask.get("/private/a", "\(stolen); __Host-cloakroom-bound=\(fixture.proof)"), 401, reason: "unproven"),
            sent: [], alsoHTTP2: true
        ).run()
        expect(refresher.calls.isEmpty && refresher.soon.isEmpty)
    }

    @Test("Rule 114: a session that got its key a moment ago, and one without a key, need no proof")
    func settling() async throws {
        let fixture = try DeviceFixture(isSettling: true)
        try await Scenario(
            "settling", on: fixture.setup(), .ok(Ask.get("/private/a", fixture.stolen)),
            .ok(Ask.get("/private/a", Ask.cookie)),
            metrics: [#"cloakroom_device_checks_total{outcome="settling"} 1"#]
        ).run()
        // The session of `Ask.cookie` began in 1970.
        let required = try DeviceFixture(.required)
        try await Scenario(
            "required", on: required.setup(), .ok(Ask.get("/private/a", required.cookie)),
            .ask(
                Ask.get("/private/a", Ask.cookie), 401, reason: "unproven",
                has: ["Secure-Session-Challenge"]), sent: [.init()]
        ).run()
        expect(empty: required.observer.all, "a session that was never bound is not stolen")
    }

    @Test("Rule 118: no upstream gets or sets the bound cookie, on any route")
    func hidden() async throws {
        let fixture = try DeviceFixture()
        let reply =
            "HTTP/1.1 200 OK\r\nSet-Cookie: __Host-cloakroom-bound=x; Path=/\r\nSet-Cookie: a=b\r\n"
            + "Content-Length: 2\r\n\r\nok"
        try await Scenario(
            "hidden",
            on: GatewaySetup.replying(reply).with(\.devices, fixture.devices).with(\.sessions, fixture.sessions),
            .ask(Ask.get("/public/a", "\(fixture.cookie); c=d"), 200, has: ["Set-Cookie: a=b"]),
            .ask(Ask.get("/public/a", "Cookie: c=d; __Host-cloakroom-bound=\(fixture.proof)"), 200),
            .ask(Ask.get("/private/a", "\(fixture.cookie); c=d"), 200, has: ["Set-Cookie: a=b"]),
            sent: (0..<3).map { _ in .init(has: ["Cookie: c=d"], lacks: [fixture.proof]) }, alsoHTTP2: true
        ).run()
    }

    @Test("`require.device`: a session without a key gets 403, and one with its proof is forwarded")
    func requiredByRoute() async throws {
        let fixture = try DeviceFixture()
        try await Scenario(
            "required", on: fixture.setup().configuration { $0.changePrivate { $0.require.device = true } },
            .ask(Ask.get("/private/a", Ask.cookie), 403, "device_required"),
            .ask(Ask.get("/private/a", fixture.stolen), 401, reason: "unproven"),
            .ok(Ask.get("/private/a", fixture.cookie)), sent: [.init()], alsoHTTP2: true
        ).run()
    }

    @Test("The access log has the session of a request, permitted or not, its app, and that it is bound")
    func logged() async throws {
        let fixture = try DeviceFixture()
        let setup = fixture.setup().configuration { $0.changePrivate { $0.require.device = true } }
        let log = try await setup.logged { gateway in
            let client = try await gateway.client()
            for (cookie, status) in [(fixture.cookie, 200), (fixture.stolen, 401), (Ask.cookie, 403)] {
                try await expect(client.exchange(Ask.get("/private/a", cookie)).status, equals: status)
            }
        }
        let session = #""session":"\#(fixture.session.id)","app":"shop","bound":true,"#
        expect(log.text.ranges(of: session).count, equals: 2)
        expect(log.text.contains(/"decision":"forbidden","session":"[0-9a-f]{16}","scheme"/), "\(log.text)")
    }

    @Test("Rule 115: the endpoint gets the fields of the client, and nothing of another site")
    func endpoint() async throws {
        let fixture = try DeviceFixture()
        let endpoints = FakeEndpoints { request in
            let texts = [request.device.cookie, request.device.proof ?? [], request.device.sessionID ?? []].map {
                String(decoding: $0, as: UTF8.self)
            }
            return AccountResponse(status: 200, content: .json(Array(texts.joined(separator: " ").utf8)))
        }
        let fields = ["Secure-Session-Response: \"a.b.c\"", "Sec-Secure-Session-Id: \"0123\"", "Content-Length: 0"]
        func post(_ more: String...) -> String { Ask.ask("POST", "/auth/device", [fixture.cookie] + fields + more) }
        try await Scenario(
            "endpoint",
            on: fixture.setup().with(\.endpoints, endpoints).configuration {
                $0.crossSite.requiredField = NamedValue(name: "X-CSRF", value: "1")
                $0.crossSite.trustedOrigins = ["https://other.test"]
            },
            .all(
                [post(), post("Sec-Fetch-Site: same-origin"), post("Sec-Fetch-Site: same-origin", "Origin: null")], 200,
                text: "\(fixture.proof) a.b.c 0123"),
            .all(
                [
                    post("Sec-Fetch-Site: cross-site"), post("Sec-Fetch-Site: same-site", "Origin: https://other.test"),
                    post("Sec-Fetch-Site: none"), post("Origin: https://evil.test"),
                ], 403, "cross_site"),
            .ask(Ask.get("/auth/device", fixture.cookie), 405), sent: [], alsoHTTP2: true
        ).run()
    }

    @Test("Rule 119: a WebSocket of a bound session ends after `streams`, with 1008, and another one does not")
    func streams() async throws {
        let fixture = try DeviceFixture(streams: .seconds(300))
        for (cookie, ends) in [(fixture.cookie, true), (Ask.cookie, false)] {
            try await Tunnel.open(
                GatewaySetup().with(\.devices, fixture.devices).with(\.sessions, fixture.sessions).steppedTime(),
                request: Handshake.request("/private/socket", cookie),
                configuration: { $0.timeouts.tunnelIdle = .seconds(900) }
            ) { tunnel in
                try await tunnel.gateway.advance(.seconds(299), inStepsOf: .seconds(10))
                expect(!tunnel.client.isClosed)
                try await tunnel.gateway.advance(.seconds(3), inStepsOf: .seconds(1))
                if ends {
                    expect(Frame.closeCode(try await tunnel.client.rest()), equals: 1_008)
                    try await tunnel.upstream.closed()
                } else {
                    expect(!tunnel.client.isClosed)
                }
            }
        }
    }

    @Test("Rule 114: a WebSocket of an access token needs no key of a device")
    func streamOfToken() async throws {
        let fixture = try DeviceFixture(.required)
        let tokens = FakeTokens(["good": Company.session(token: "of-the-client").1])
        try await Tunnel.open(
            GatewaySetup().with(\.devices, fixture.devices).with(\.tokens, tokens).steppedTime(),
            request: Handshake.request("/private/socket", "Authorization: Bearer good"),
            configuration: {
                $0.addCompany()
                $0.changePrivate { $0.credentials = .either }
            }
        ) { tunnel in
            try await tunnel.gateway.advance(.seconds(3), inStepsOf: .seconds(1))
            expect(!tunnel.client.isClosed)
        }
    }
}
