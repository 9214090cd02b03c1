import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomHTTP2

@Suite("Header blocks in several frames (RFC 9113 §4.3, §6.2, §6.10)")
struct HeaderBlockTests {
    private static let fields = TestConnection.get + [("x-a", "1"), ("x-b", "2")]
    private static let text = "GET /, x-a: 1, x-b: 2"
    private let test = TestConnection()

    @Test("A block may be cut at any byte, into fragments that may be empty")
    func cuts() {
        let reference = TestConnection().block(Self.fields)
        for cut in 0...reference.count {
            let test = TestConnection()
            let frames = [
                TestFrame(1, flags: 1, stream: 1, Array(reference[..<cut])), TestFrame(9, stream: 1),
                TestFrame(9, flags: 4, stream: 1, Array(reference[cut...])),
            ]
            expect(test.send(Array(frames.prefix(2))), equals: [])
            expect(test.isReceivingHeaderBlock)
            expect(test.connection.streamCount, equals: 0)
            expect(test.send(Array(frames.suffix(1))), equals: [.request(1, Self.text, end: true)])
            expect(!test.isReceivingHeaderBlock)
        }
    }

    @Test("One byte in each frame")
    func singleBytes() {
        let frames = test.frames(1, Self.fields, end: false, size: 1)
        expect(test.send(frames), equals: [.request(1, Self.text, end: false)])
        expect(test.send(test.frames(1, [("x-sum", "1")], end: true, size: 1)), equals: [.trailers(1, ["x-sum: 1"])])
    }

    @Test(
        "RFC 9113 §6.10: nothing comes between the frames of a block",
        arguments: [
            TestFrame.data(1, "a"), .data(3, "a"), .priority(1), .priority(5), .reset(1), .reset(3), .settings(),
            .settingsAcknowledgement, .ping(), .goAway(last: 0, .noError), .windowUpdate(0, 1), .windowUpdate(1, 1),
            TestFrame(1, flags: 5, stream: 3, [0x82]), TestFrame(1, flags: 5, stream: 5, [0x82]),
            TestFrame(9, flags: 4, stream: 1), TestFrame(9, flags: 4, stream: 5), TestFrame(9, stream: 0),
            TestFrame(0xfe), TestFrame(5, stream: 3),
        ])
    func interrupted(_ frame: TestFrame) {
        let test = TestConnection(open: 1)
        let first = test.frames(3, Self.fields, size: 5)[0]
        expect(test.send([first, frame]), equals: [.failed(.protocolError)])
        expect(test.output(), equals: [.goAway(last: 1, .protocolError)])
    }

    @Test("A CONTINUATION after the end of a block ends the connection")
    func tooMany() {
        let frames = test.frames(1, Self.fields, size: 10)
        expect(test.send(frames).count, equals: 1)
        expect(test.send(TestFrame(9, flags: 4, stream: 1)), equals: [.failed(.protocolError)])
    }

    @Test("RFC 9113 §6.2: padding and priority are removed, in the first frame only")
    func paddingAndPriority() {
        let priority = TestFrame.number(0) + [15]
        for (flags, prefix, suffix) in [
            (8, [3] as [UInt8], [9, 9, 9] as [UInt8]), (8, [0], []), (0x20, priority, []),
            (0x28, [2] + priority, [9, 9]),
            (8, [255], [UInt8](repeating: 9, count: 255)),
        ] as [(UInt8, [UInt8], [UInt8])] {
            let test = TestConnection()
            let block = test.block(Self.fields)
            expect(
                test.send(TestFrame(1, flags: flags | 5, stream: 1, prefix + block + suffix)),
                equals: [.request(1, Self.text, end: true)])
            let other = test.block(Self.fields)
            // The flags of CONTINUATION do not include PADDED and PRIORITY.
            expect(
                test.send([
                    TestFrame(1, flags: flags | 1, stream: 3, prefix + Array(other.prefix(3)) + suffix),
                    TestFrame(9, flags: 0x2c, stream: 3, Array(other.dropFirst(3))),
                ]), equals: [.request(3, Self.text, end: true)])
        }
    }

    @Test(
        "RFC 9113 §6.2: a HEADERS frame that is too short for its padding or priority",
        arguments: [
            (8, [], .frameSizeError), (8, [1], .protocolError), (8, [5, 0x82, 0, 0, 0], .protocolError),
            (8, [255], .protocolError), (0x20, [], .frameSizeError), (0x20, [0, 0, 0, 0], .frameSizeError),
            (0x28, [0], .frameSizeError), (0x28, [0, 0, 0, 0, 0], .frameSizeError),
        ] as [(UInt8, [UInt8], HTTP2ErrorCode)])
    func tooShort(_ flags: UInt8, _ payload: [UInt8], _ code: HTTP2ErrorCode) {
        expect(TestConnection().send(TestFrame(1, flags: flags | 5, stream: 1, payload)), equals: [.failed(code)])
    }

    @Test("Padding may fill the frame, and reaches into priority or block only as an error")
    func paddingBorder() {
        let whole = TestConnection()
        // No block: an empty one is no request.
        expect(whole.send(TestFrame(1, flags: 0xd, stream: 1, [3, 0, 0, 0])), equals: [.malformed])
        let priority = TestFrame.number(0) + [15]
        expect(TestConnection().send(TestFrame(1, flags: 0x2d, stream: 1, [1] + priority + [0])), equals: [.malformed])
        let over = TestConnection()
        let events = over.send(TestFrame(1, flags: 0x2d, stream: 1, [2] + priority + [0]))
        expect(events == [.failed(.protocolError)] || events == [.failed(.frameSizeError)])
    }

    // MARK: - Limits

    @Test("A block above the limit ends the connection with ENHANCE_YOUR_CALM, one of exactly the limit does not")
    func limit() {
        let limit = 131_072
        for excess in [0, 1] {
            let test = TestConnection()
            let head = test.block(TestConnection.get)
            // A field that is too large to be kept: "x" with a value that fills the block.
            let count = limit + excess - head.count - 7
            let rest = count - 127
            let length = [0x7f, UInt8(rest & 0x7f | 0x80), UInt8(rest >> 7 & 0x7f | 0x80), UInt8(rest >> 14)]
            let block = head + [0, 1, 0x78] + length + [UInt8](repeating: 0x61, count: count)
            expect(block.count, equals: limit + excess)
            let events = test.send(TestConnection.frames(1, block, end: true, size: 16_384))
            let expected = excess == 0 ? SeenEvent.oversized(1, .headTooLarge, end: true) : .failed(.enhanceYourCalm)
            expect(events, equals: [expected])
        }
    }

    @Test("The limit grows with that of the head, so that every head within the limits fits")
    func limitOfLargeHeads() {
        let configuration = HTTP2ConnectionConfiguration(
            headLimits: .init(head: 65_535, fields: 100), concurrentStreams: 1)
        expect(configuration.headerBlockLimit, equals: (65_535 + 3_200) * 4)
        let small = HTTP2ConnectionConfiguration(headLimits: .init(head: 1_024, fields: 1), concurrentStreams: 1)
        expect(small.headerBlockLimit, equals: 131_072)
    }

    @Test(
        "CVE-2024-27316: CONTINUATION without end, whether empty, small or full, ends the connection",
        arguments: [0, 1, 1_023, 16_384])
    func flood(_ size: Int) {
        test.send(TestFrame(1, stream: 1, [0x82]))
        var count = 0
        var events: [SeenEvent] = []
        while events.isEmpty, count < 2_000 {
            events = test.send(TestFrame(9, stream: 1, [UInt8](repeating: 0, count: size)))
            count += 1
        }
        expect(events, equals: [.failed(.enhanceYourCalm)])
        #expect(count <= (size < 1_024 ? 1_002 : 9))
    }

    @Test("A head of 64 KiB in full frames costs nothing of the budget")
    func regularUse() {
        let test = TestConnection(limits: HeadLimits(head: 65_535, fields: 100))
        let fields = TestConnection.get + (0..<10).map { ("x-\($0)", String(repeating: "a", count: 6_000)) }
        let block = test.block(fields)
        for id in stride(from: 1, to: 2_001, by: 2) as StrideTo<UInt32> {
            expect(test.send(TestConnection.frames(id, block, end: true, size: 16_384)).count, equals: 1)
            test.connection.finish(test.slot(id))
        }
        expect(test.output(), equals: [])
    }
}
