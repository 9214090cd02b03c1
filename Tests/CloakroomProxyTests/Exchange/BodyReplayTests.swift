import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("Which requests are sent again with another token")
struct BodyReplayTests {
    @Test("Only a body of known and small length is kept", arguments: [(16_384, true), (16_385, false)])
    func limit(length: Int, isKept: Bool) {
        var replay = BodyReplay()
        replay.keep(.length(length), upTo: 16_384)
        expect(replay.isKept, equals: isKept)
        expect(replay.canReplay(.length(length)), equals: isKept)
        var chunked = BodyReplay()
        chunked.keep(.chunked, upTo: 16_384)
        expect(!chunked.isKept)
        expect(!chunked.canReplay(.chunked))
    }

    @Test("A request without a body needs none to be sent again")
    func noBody() {
        var replay = BodyReplay()
        replay.keep(.none, upTo: 16_384)
        expect(replay.canReplay(.none))
    }

    @Test("The parts of a body are appended, and discarded once a response is forwarded")
    func parts() {
        var replay = BodyReplay()
        replay.keep(.length(4), upTo: 4)
        replay.append(ByteBuffer(string: "ab"))
        replay.append(ByteBuffer(string: "cd"))
        expect(String(buffer: replay.body), equals: "abcd")
        _ = replay.discard()
        expect(replay.body.readableBytes, equals: 0)
        expect(!replay.canReplay(.length(4)))
    }

    @Test("The limit of one request does not apply to the next one, which would lose what exceeds it")
    func limitOfOneRequest() {
        var replay = BodyReplay()
        replay.keepIfSmall(upTo: 4)
        replay.append(ByteBuffer(string: "abc"))
        _ = replay.discard()
        _ = replay.reset()
        replay.append(ByteBuffer(string: "0123456789"))
        expect(String(buffer: replay.body), equals: "0123456789")
    }

    @Test("The first rejection leads to a refresh; up to three do if the token had expired in transit")
    func rejections() {
        var replay = BodyReplay()
        let isRefreshed = [false, true, true, true].map { replay.tokenRejected(hasAged: $0) }
        expect(isRefreshed, equals: [true, true, true, false])
        var valid = BodyReplay()
        expect([false, false].map { valid.tokenRejected(hasAged: $0) }, equals: [true, false])
    }
}
