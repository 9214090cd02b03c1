import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

/// What regular clients do has to stay below every budget.
@Suite("Ordinary use of HTTP/2 is never counted as abuse (RFC 9113 §10.5)")
struct OrdinaryUseTests {
    private let test = TestConnection()

    @Test("Rule 56: a proxy whose clients cancel every fourth request, 4,800 requests in a few seconds")
    func proxy() {
        for number in 0..<4_800 as Range<UInt32> {
            let id = 2 * number + 1
            expect(test.send(test.headers(id, end: true)).count, equals: 1)
            if number.isMultiple(of: 4) {
                expect(test.send(.reset(id)), equals: [.closed(id, nil)])
            } else {
                test.respond(id, end: true)
                test.connection.finish(test.slot(id))
            }
            _ = test.output()
        }
    }

    @Test("Rule 56: 500 requests that the gateway responds to before their bodies have ended (401, 404, 413)")
    func earlyResponses() {
        for number in 0..<500 as Range<UInt32> {
            let id = 2 * number + 1
            expect(test.send(test.headers(id, TestConnection.post)).count, equals: 1)
            test.respond(id, status: 401, end: true)
            test.connection.finish(test.slot(id))
            // The client sends the rest of its body before it has read the response.
            expect(test.send(.data(id, "body"), .data(id, [], end: true)), equals: [])
            _ = test.output()
        }
    }

    @Test("Rule 56: a slow reader that opens its window in small steps receives a body of 300 KB")
    func slowReader() {
        test.send(.settings([4: 1_000]))
        test.open(1)
        test.connection.setPending(300_000, on: test.slot(1))
        expect(test.sendBodies(), equals: ["1:1000"])
        for _ in 1..<300 {
            expect(test.send(.windowUpdate(0, 1_000), .windowUpdate(1, 1_000)).last, equals: .windowOpened)
            expect(test.sendBodies(), equals: ["1:1000"])
            _ = test.output()
        }
    }

    @Test("Rule 56: Firefox's tree of PRIORITY frames and Chromium's PRIORITY_UPDATE frames for 100 requests")
    func priorities() {
        expect(test.send([3, 5, 7, 9, 11].map { TestFrame.priority($0) }), equals: [])
        for number in 0..<100 as Range<UInt32> {
            let id = 2 * number + 13
            let update = TestFrame(16, TestFrame.number(id) + Array("u=2, i".utf8))
            expect(test.send([test.headers(id, end: true), .priority(id, on: 11), update]).count, equals: 1)
            test.respond(id, end: true)
            test.connection.finish(test.slot(id))
            _ = test.output()
        }
    }

    @Test("Rule 56: an upload in 5,000 DATA frames of 20 bytes, and one with padding in each frame")
    func smallData() {
        for (id, frames, padding) in [(1, 5_000, nil), (3, 1_000, 10)] as [(UInt32, Int, Int?)] {
            test.send(test.headers(id, TestConnection.post))
            let frame = TestFrame.data(id, [UInt8](repeating: 0x61, count: 20), padding: padding)
            for _ in 0..<frames {
                expect(test.send(frame).count, equals: 1)
                test.connection.consumed(20, on: test.slot(id))
                _ = test.output()
            }
        }
    }

    @Test(
        "Rule 56: a gRPC client sends a ping for each message that it reads (BDP estimation) and each message it sends")
    func pings() {
        let test = TestConnection(open: 1)
        for _ in 0..<200 {
            expect(test.send(.data(1, count: 100), .ping(7)).count, equals: 1)
            test.connection.setPending(100, on: test.slot(1))
            expect(test.sendBodies(), equals: ["1:100"])
            expect(test.send(.ping(8)), equals: [])
            _ = test.output()
        }
    }

    @Test("Rule 56: a browser that leaves a page cancels 100 images, three times in a row")
    func browser() {
        let test = TestConnection(streams: 100)
        test.send(.settings([4: 6_291_456]), .windowUpdate(0, 15_663_105))
        for number in 0..<300 as Range<UInt32> {
            let id = 2 * number + 1
            expect(test.send(test.headers(id, end: true)), equals: [.request(id, "GET /", end: true)])
            expect(test.send(.windowUpdate(id, 32_768)), equals: [])
            expect(test.send(.reset(id)), equals: [.closed(id, nil)])
        }
        for _ in 0..<10 { expect(test.send(.ping()), equals: []) }
        // As much again: it uses less than half of the budget.
        for number in 300..<600 as Range<UInt32> {
            let id = 2 * number + 1
            expect(test.send([test.headers(id, end: true), .reset(id)]).count, equals: 2)
        }
    }

    @Test(
        "Rule 56: 1,000 sequential requests, each with window updates for stream and connection, as nghttp2 sends them")
    func sequential() {
        for number in 0..<7_000 as Range<UInt32> {
            let id = 2 * number + 1
            test.now += 500_000
            guard test.send(test.headers(id, end: true)) == [.request(id, "GET /", end: true)] else {
                Issue.record("request \(number) was not accepted")
                return
            }
            test.respond(id)
            test.connection.beginData(40_000, on: test.slot(id), endsStream: true)
            test.connection.finish(test.slot(id))
            expect(test.send(.windowUpdate(id, 32_768), .windowUpdate(0, 40_000)), equals: [])
            test.connection.output.clear()
        }
    }
}
