import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("State of a client's HTTP/1.1 connection")
struct HTTP1ConnectionStateTests {
    /// A connection without I/O. Requests are passed on at once; their responses are events of the test.
    private struct Connection {
        var state = HTTP1ConnectionState(limits: HeadLimits())

        init(_ text: String = "") { receive(text) }

        /// A connection whose first request head has been read.
        init(requested text: String) throws {
            receive(text)
            _ = try request()
        }

        mutating func receive(_ text: String) {
            var bytes = ByteBuffer(string: text)
            state.receive(&bytes)
        }

        mutating func step(isWritable: Bool = true, acceptsBody: Bool = true) -> HTTP1ConnectionState.Step {
            state.nextStep(isWritable: isWritable, acceptsBody: acceptsBody)
        }

        /// Reads a request head from the input.
        /// - Returns: `nil` if it is incomplete.
        mutating func request() throws -> BodyFraming? {
            guard step() == .parseHead else { return nil }
            var head = RequestHead()
            guard try state.parseHead(into: &head) else { return nil }
            let framing = try BodyFraming.of(head)
            try state.requestReceived(head, framing: framing)
            return framing
        }

        mutating func respond(_ framing: BodyFraming = .length(2)) -> HTTP1ConnectionState.ResponseCompletedAction {
            _ = state.responseStarted(framing)
            return state.responseCompleted()
        }
    }

    private static let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

    private static func post(_ body: String, length: Int? = nil) -> String {
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(length ?? body.utf8.count)\r\n\r\n\(body)"
    }

    // MARK: - Input

    @Test("A partly received head is distinguished from none")
    func partialHead() throws {
        var connection = Connection()
        expect(!connection.state.isReceivingHead)
        connection.receive("GET / HTTP/1.1\r\nHo")
        expect(connection.state.isReceivingHead && connection.state.hasUnparsedHead)
        try expect(connection.request(), equals: nil)
        expect(connection.state.isReceivingHead && !connection.state.hasUnparsedHead)
        connection.state.requestHeadTimedOut()
        expect(connection.state.responseCompleted(), equals: .linger)
    }

    @Test("Body bytes are passed on only while they are accepted")
    func body() throws {
        var connection = Connection(Self.post("abcd"))
        try expect(connection.request(), equals: .length(4))
        expect(connection.step(acceptsBody: false), equals: .wait)
        expect(connection.step(), equals: .body(ByteBuffer(string: "abcd")))
        expect(connection.step(acceptsBody: false), equals: .wait)
        expect(connection.step(), equals: .bodyEnd(nil))
        expect(connection.state.phase, equals: .awaitingResponse)
        expect(connection.respond(), equals: .next)
    }

    @Test("Reading pauses only after 16,384 bytes, and not while a request can be parsed")
    func full() throws {
        var connection = Connection(Self.post("", length: 100_000))
        try expect(connection.request(), equals: .length(100_000))
        connection.receive(String(repeating: "x", count: 16_384))
        expect(!connection.state.isFull(isWritable: true))
        connection.receive("x")
        expect(connection.state.isFull(isWritable: true))
        var idle = Connection(String(repeating: "x", count: 16_385))
        expect(!idle.state.isFull(isWritable: true))
        expect(idle.state.isFull(isWritable: false))
        expect(idle.state.linger(), equals: .closeOutput)
        expect(!idle.state.hasInput)
    }

    // MARK: - Responses before the end of the request

    @Test("After an early local response the remaining body is discarded, if it is at most 65,536 bytes")
    func drainedBody() throws {
        var connection = try Connection(requested: Self.post("ab", length: 4))
        connection.state.localResponseStarted(status: 413, expectsContinue: false)
        expect(connection.state.connectionField, equals: .omitted)
        expect(connection.state.responseCompleted(), equals: .drainBody)
        expect(connection.step(acceptsBody: false), equals: .discarded)
        expect(connection.step(), equals: .wait)
        connection.receive("cd" + Self.get)
        expect(connection.step(), equals: .discarded)
        expect(connection.step(), equals: .nextRequest)
        try expect(connection.request(), equals: BodyFraming.none)
    }

    @Test(
        "After an early local response the connection is closed if the remaining body is large or may not follow",
        arguments: [(65_537, 404, false), (1, 404, true), (1, 400, false), (1, 408, false), (1, 501, false)])
    func unwantedBody(length: Int, status: Int, expectsContinue: Bool) throws {
        var connection = try Connection(requested: Self.post("", length: length))
        connection.state.localResponseStarted(status: status, expectsContinue: expectsContinue)
        expect(connection.state.connectionField, equals: .close)
        expect(connection.state.responseCompleted(), equals: .linger)
    }

    // MARK: - Tunnels and ends

    @Test("A lingering connection discards input, and is incomplete until everything is sent")
    func lingering() throws {
        var connection = try Connection(requested: Self.get)
        expect(connection.state.isResponseIncomplete(isActive: true))
        expect(!connection.state.isResponseIncomplete(isActive: false))
        expect(connection.state.linger(), equals: .closeOutput)
        connection.receive(Self.get)
        expect(connection.step(), equals: .wait)
        expect(connection.state.inputStorage, equals: 0)
        expect(connection.state.isResponseIncomplete(isActive: false))
        connection.state.responseSent()
        expect(!connection.state.isResponseIncomplete(isActive: true))
    }

    @Test("A closed connection stays closed")
    func closed() throws {
        var connection = try Connection(requested: Self.get)
        expect(connection.state.close(), equals: true)
        expect(connection.state.close(), equals: false)
        expect(connection.state.linger(), equals: nil)
        expect(connection.state.responseCompleted(), equals: .alreadyClosed)
        expect(connection.step(), equals: .wait)
    }

    // MARK: - Storage

    /// Responds to each request when it is complete.
    private static func receiver() -> (ByteBuffer) throws -> Int? {
        var connection = Connection()
        var head = RequestHead()
        return { read in
            var read = read
            connection.state.receive(&read)
            reading: while true {
                switch connection.step() {
                case .parseHead:
                    guard try connection.state.parseHead(into: &head) else { break reading }
                    let framing = try BodyFraming.of(head)
                    try connection.state.requestReceived(head, framing: framing)
                    head = RequestHead()
                    if framing == .none { _ = connection.respond() }
                case .bodyEnd: _ = connection.respond()
                case .body: break
                default: break reading
                }
            }
            connection.state.releaseInput()
            return connection.state.inputStorage
        }
    }

    private static let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\nA: b\r\n\r\n"
    private static let large = "GET / HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "a", count: 8_000))\r\n\r\n"

    @Test(
        "Rule 77: requests without end keep storage for an unread part of one, in all splits",
        arguments: [get, post("abcd"), post(String(repeating: "a", count: 20_000)), post("") + get, chunked, large])
    func storageOfRequests(request: String) throws {
        try StorageProperty.check(PeerStream(request)) { Self.receiver() }
    }

    @Test("Rule 77: a chunked body and a tunnel without end keep little storage, in all splits")
    func storageOfBodies() throws {
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        try StorageProperty.check(PeerStream(start: head, "5\r\nabcde\r\n")) { Self.receiver() }
        try StorageProperty.check(PeerStream(String(repeating: "a", count: 125)), bound: 0) {
            var connection = try Connection(requested: Self.get)
            connection.state.upgraded()
            return { read in
                var read = read
                connection.state.receive(&read)
                while case .body = connection.step() {}
                connection.state.releaseInput()
                return connection.state.inputStorage
            }
        }
    }

    @Test("Rule 77: input that has to wait, in a tunnel too, keeps four times its limit and one read")
    func storageOfWaitingInput() throws {
        for isTunnel in [false, true] {
            try StorageProperty.check(PeerStream(Self.get), bound: 4 * (16_384 + 65_536), reads: 14_000) {
                var connection = try Connection(requested: Self.get)
                if isTunnel { connection.state.upgraded() }
                return { read in
                    var read = read
                    guard !connection.state.isFull(isWritable: true) else { return nil }
                    connection.state.receive(&read)
                    expect(connection.step(acceptsBody: false), equals: .wait)
                    connection.state.releaseInput()
                    return connection.state.inputStorage
                }
            }
        }
    }

    @Test("Rule 77: what a closed connection still receives is not kept: TLS may deliver input until close_notify")
    func inputAfterClose() throws {
        var connection = Connection("GET / HTTP/1.1\r\nHo")
        try expect(connection.request(), equals: nil)
        connection.state.close()
        for _ in 0..<10 { connection.receive(String(repeating: "a", count: 10_000)) }
        expect(connection.state.inputStorage == 0 && !connection.state.hasInput)
    }
}
