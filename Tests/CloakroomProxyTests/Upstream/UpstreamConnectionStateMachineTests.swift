import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore
@testable import CloakroomProxy

@Suite("State of an upstream connection")
struct UpstreamConnectionStateMachineTests {
    @Test("A response that is complete before its request, or on an inactive channel, ends the connection")
    func incompleteRequest() {
        var early = Connection()
        early.machine.begin(.to())
        expect(early.receive("HTTP/1.1 204 No Content\r\n\r\n"), equals: ["head 204 none", "end, not reusable"])
        var inactive = Connection()
        inactive.isActive = false
        inactive.begin()
        expect(inactive.receive("HTTP/1.1 204 No Content\r\n\r\n"), equals: ["head 204 none", "end, not reusable"])
    }

    @Test("More than 4,096 interim responses to a request fail it")
    func interimLimit() {
        var connection = Connection()
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n"
        for _ in 0..<2 {
            connection.begin()
            expect(connection.receive(String(repeating: interim, count: 4_096)).last, equals: "informational 103")
            expect(connection.receive("HTTP/1.1 204 No Content\r\n\r\n").last, equals: "end, reusable")
        }
        connection.begin()
        let received = connection.receive(String(repeating: interim, count: 4_097))
        expect(received.count, equals: 4_097)
        expect(received.last, equals: "fail invalidResponse")
    }

    private static let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: \(String(repeating: "a", count: 8_000))\r\n\r\n"

    @Test(
        "Rule 77: interim responses, bodies and tunnels without end keep little storage, in all splits",
        arguments: [
            ("", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n"),
            ("", "HTTP/1.1 103 Early Hints\r\nLink: \(String(repeating: "a", count: 9_000))\r\n\r\n"),
            (chunked, "5\r\nabcde\r\n"), (chunked, "2000\r\n\(String(repeating: "a", count: 8_192))\r\n"),
            ("HTTP/1.0 200 OK\r\n\r\n", "abcde"), (upgrade, "abcde"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "abcde"),
        ])
    func storage(start: String, unit: String) throws {
        let stream = PeerStream(start: start, unit)
        // The head at the start of a stream may be larger than a unit.
        let bound = StorageProperty.ordinaryBound(unread: max(start.utf8.count, unit.utf8.count))
        try StorageProperty.check(stream, bound: bound) {
            var connection = Connection.begun(.to(upgrade: start == Self.upgrade ? .webSocketUpgrade : .none))
            return { read in
                var read = read
                guard connection.machine.received(&read) == .read else { return nil }
                while let action = connection.nextStep() {
                    guard case .fail = action else { continue }
                    // Only the number of interim responses is limited.
                    expect(empty: start)
                    return nil
                }
                return connection.machine.inboundStorage
            }
        }
    }

    @Test("Rule 77: trailers without end keep little more than their limit, and a failed connection nothing")
    func storageOfTrailers() throws {
        let start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        let stream = PeerStream(start: start, "X-A: \(String(repeating: "a", count: 200))\r\n")
        try StorageProperty.check(stream, bound: StorageProperty.ordinaryBound(unread: 8_192)) {
            var connection = Connection.begun()
            return { read in
                var read = read
                guard connection.machine.received(&read) == .read else {
                    expect(connection.machine.inboundStorage, equals: 0)
                    return nil
                }
                while connection.nextStep() != nil {}
                return connection.machine.inboundStorage
            }
        }
    }

    @Test("Fields that disclose an injected secret are counted, even if the response is invalid")
    func removedFields() {
        let token = Secret("0123456789")
        var connection = Connection.begun(.to(secrets: InjectedSecrets(apiToken: token, authorization: nil)))
        expect(
            connection.receive("HTTP/1.1 204 No Content\r\nX-A: 0123456789\r\n\r\n"),
            equals: ["head 204 none", "end, reusable"])
        expect(connection.machine.takeRemovedFields()?.injectedValues, equals: 1)
        expect(connection.machine.takeRemovedFields(), equals: nil)
        connection.begin(.to(secrets: InjectedSecrets(apiToken: token, authorization: nil)))
        expect(connection.receive("HTTP/1.1 101 A\r\nX-A: 0123456789\r\n\r\n"), equals: ["fail invalidResponse"])
        expect(connection.machine.takeRemovedFields()?.injectedValues, equals: 1)
    }

    // MARK: - Tunnels

    private static let upgrade = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

    @Test("After a requested upgrade all bytes belong to the tunnel, and the connection ends with it")
    func tunnel() {
        var connection = Connection.begun(.to(upgrade: .webSocketUpgrade))
        expect(connection.machine.inputClosed(), equals: false)
        expect(connection.receive(Self.upgrade + "ab"), equals: ["upgrade 101", "body ab"])
        expect(connection.receive("HTTP/1.1"), equals: ["body HTTP/1.1"])
        expect(connection.machine.inputClosed(), equals: true)
        expect(connection.machine.closed(), equals: .endTunnel)
        // The exchange ends it.
        expect(connection.machine.cancel(), equals: true)
        expect(connection.machine.isClosed)
    }

    // MARK: - Ends

    @Test("Only a body without a length is complete when the connection is closed, and only without an error")
    func untilClose() {
        let head = "HTTP/1.1 200 OK\r\n\r\n"
        var connection = Connection.begun()
        expect(connection.receive(head + "ab"), equals: ["head 200 untilClose", "body ab"])
        expect(connection.machine.closed(), equals: .endResponse)
        var reset = Connection.begun()
        expect(reset.receive(head + "ab"), equals: ["head 200 untilClose", "body ab"])
        reset.machine.errorCaught()
        expect(reset.machine.closed(), equals: .fail(.closedDuringResponse, isStale: false))
        var short = Connection.begun()
        expect(
            short.receive("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), equals: ["head 200 length(5)", "body ab"])
        expect(short.machine.closed(), equals: .fail(.closedDuringResponse, isStale: false))
    }

    @Test("Rule 148: bytes on a connection without an exchange are never read; an empty read has none")
    func unsolicited() {
        var idle = Connection.reused()
        expect(idle.receive("").isEmpty && !idle.machine.hasExcessBytes)
        expect(idle.receive("HTTP/1.1 200 OK\r\n\r\n"), equals: ["closeIdle"])
        expect(idle.machine.hasExcessBytes)
        expect(idle.receive("a"), equals: ["close"])
        expect(idle.machine.evict(), equals: false)
        var timedOut = Connection.reused()
        expect(timedOut.receive("HTTP/1.1 408 Request Timeout\r\n\r\n"), equals: ["closeIdle"])
        expect(!timedOut.machine.hasExcessBytes)
        var new = Connection()
        expect(new.receive("a"), equals: ["close"])
    }

    @Test("A cancelled exchange closes its connection, and the remaining bytes are not delivered")
    func cancelled() {
        var connection = Connection.begun()
        var bytes = ByteBuffer(string: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab")
        expect(connection.machine.received(&bytes), equals: .read)
        expect(bytes.readableBytes, equals: 0)
        expect(connection.next(), equals: "head 200 length(2)")
        expect(connection.machine.cancel(), equals: true)
        expect(connection.next(), equals: nil)
        expect(connection.machine.cancel(), equals: false)
        expect(connection.machine.closed(), equals: .ignore)
    }

    @Test("An idle connection is removed once: by its pool, or because it is closed")
    func idle() {
        var evicted = Connection.reused()
        expect(evicted.machine.evict(), equals: true)
        expect(evicted.machine.closed(), equals: .ignore)
        var closed = Connection.reused()
        expect(closed.machine.cancel(), equals: false)
        expect(closed.machine.closed(), equals: .discardIdle)
        expect(closed.machine.evict(), equals: false)
    }
}

extension UpstreamRequest {
    fileprivate static func to(
        isHeadRequest: Bool = false, upgrade: RequestedUpgrade = .none, secrets: InjectedSecrets = .none
    ) -> UpstreamRequest {
        UpstreamRequest(
            isHeadRequest: isHeadRequest, upgrade: upgrade,
            responsePolicy: ResponseHeaderPolicy(cookie: SessionCookie(CookieConfiguration())),
            injectedSecrets: secrets)
    }
}

/// A state machine whose actions are reported as text.
private struct Connection {
    var machine = UpstreamConnectionStateMachine(limits: HeadLimits())
    var isActive = true
    private var head = ResponseHead()

    /// A connection that has served an exchange.
    static func reused() -> Connection {
        var connection = begun()
        expect(connection.receive("HTTP/1.1 204 No Content\r\n\r\n").last, equals: "end, reusable")
        connection.machine.becomeIdle()
        return connection
    }

    /// A connection with an exchange whose request is complete.
    static func begun(_ request: UpstreamRequest = .to()) -> Connection {
        var connection = Connection()
        connection.begin(request)
        return connection
    }

    /// Begins an exchange whose request is complete.
    mutating func begin(_ request: UpstreamRequest = .to()) {
        machine.begin(request)
        machine.requestEnded()
    }

    mutating func receive(_ text: String) -> [String] {
        var bytes = ByteBuffer(string: text)
        let received = machine.received(&bytes)
        guard received == .read else { return ["\(received)"] }
        var actions: [String] = []
        while let action = next() { actions.append(action) }
        return actions
    }

    /// The next action; complete heads are dropped.
    mutating func nextStep() -> UpstreamConnectionStateMachine.Action? {
        let action = machine.next(&head, isActive: isActive)
        // An incomplete head is continued by the next bytes.
        guard action != .wait else { return nil }
        head.reset()
        return action
    }

    mutating func next() -> String? {
        switch machine.next(&head, isActive: isActive) {
        case .wait: nil
        case .informational: take("informational")
        case .head(_, let framing): "\(take("head")) \(framing)"
        case .body(let bytes): "body \(String(buffer: bytes))"
        case .end(let trailers, let isReusable):
            "end\(trailers.map { ", trailers \(String(buffer: $0.bytes).dropLast())" } ?? "")"
                + ", \(isReusable ? "" : "not ")reusable"
        case .upgrade: take("upgrade")
        case .fail(let kind): "fail \(kind)"
        }
    }

    private mutating func take(_ kind: String) -> String {
        defer { head.reset() }
        return "\(kind) \(head.status)"
    }
}
