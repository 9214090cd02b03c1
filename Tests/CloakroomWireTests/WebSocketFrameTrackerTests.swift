import CloakroomWire
import NIOCore
import TestSupport
import Testing

@Suite("WebSocket frame boundaries (RFC 6455 §5.2)")
struct WebSocketFrameTrackerTests {
    /// The head of a frame, and the payload length that it announces.
    struct Head: Sendable, CustomTestStringConvertible {
        let bytes: [UInt8]
        let payload: Int

        /// - Parameter form: 0 for a length in the second byte, 2 or 8 for an extended length of that many bytes.
        init(_ opcode: UInt8, payload: Int, form: Int, isMasked: Bool) {
            let mask: UInt8 = isMasked ? 0x80 : 0
            var bytes = [opcode]
            switch form {
            case 2: bytes += [mask | 126, UInt8(payload >> 8 & 0xff), UInt8(payload & 0xff)]
            case 8: bytes += [mask | 127] + (0..<8).map { UInt8(payload >> (56 - 8 * $0) & 0xff) }
            default: bytes.append(mask | UInt8(payload))
            }
            // A mask that would be a very long frame if it were parsed as a head.
            if isMasked { bytes += [0xff, 0xff, 0xff, 0xff] }
            self.bytes = bytes
            self.payload = payload
        }

        var testDescription: String { "\(bytes)" }

        var frame: [UInt8] { bytes + [UInt8](repeating: 0x7f, count: payload) }
    }

    /// Every form of a head: each length in each form that can represent it, masked or not, of data and of control
    /// frames.
    static let heads: [Head] = ([0x81, 0x02, 0x80, 0x88, 0xff] as [UInt8]).flatMap { opcode in
        forms.flatMap { form, lengths in
            lengths.flatMap { length in
                [true, false].map { Head(opcode, payload: length, form: form, isMasked: $0) }
            }
        }
    }

    private static let forms = [
        (0, [0, 1, 2, 125]), (2, [0, 1, 125, 126, 127, 255, 256, 65_535]), (8, [0, 1, 126, 65_535, 65_536, 70_000]),
    ]

    private static func scan(_ bytes: some Sequence<UInt8>) -> WebSocketFrameTracker {
        var scan = WebSocketFrameTracker()
        scan.advance(over: ByteBuffer(bytes: bytes))
        return scan
    }

    @Test("A frame in any form ends exactly with its last byte", arguments: heads)
    func oneFrame(head: Head) {
        let frame = head.frame
        expect(Self.scan(frame).isAtFrameBoundary)
        for count in 1...min(frame.count - 1, head.bytes.count + 2) where count < frame.count {
            expect(!Self.scan(frame.prefix(count)).isAtFrameBoundary, "\(count) bytes")
        }
        expect(!Self.scan(frame.dropLast()).isAtFrameBoundary)
        expect(!Self.scan(frame + [0x81]).isAtFrameBoundary)
        expect(Self.scan(frame + [0x81, 0]).isAtFrameBoundary)
    }

    @Test("Byte-by-byte input gives the same result at every byte", arguments: heads.filter { $0.payload <= 256 })
    func byteByByte(head: Head) {
        let frame = head.frame + head.frame
        var scan = WebSocketFrameTracker()
        for (index, byte) in frame.enumerated() {
            scan.advance(over: ByteBuffer(bytes: [byte]))
            let isEnd = index + 1 == head.frame.count || index + 1 == frame.count
            expect(scan.isAtFrameBoundary, equals: isEnd, "byte \(index)")
        }
    }

    @Test("The position before the first byte is a boundary, also after empty input")
    func empty() {
        var scan = WebSocketFrameTracker()
        expect(scan.isAtFrameBoundary)
        scan.advance(over: ByteBuffer())
        expect(scan, equals: WebSocketFrameTracker())
    }

    @Test("A frame longer than any memory is tracked like any other")
    func enormous() {
        for top: UInt8 in [0x7f, 0xff] {
            var scan = Self.scan([0x82, 127, top, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])
            expect(!scan.isAtFrameBoundary)
            for _ in 0..<10 { scan.advance(over: ByteBuffer(repeating: 0, count: 100_000)) }
            expect(!scan.isAtFrameBoundary)
        }
    }

    @Test("Rule 84: a message is measured over its frames, without control frames, wherever the bytes are cut")
    func messageSize() {
        let first: [UInt8] = [0x01, 3, 1, 2, 3], ping: [UInt8] = [0x89, 1, 0], last: [UInt8] = [0x80, 2, 4, 5]
        // Masked and with an extended length, as the first frame of the next message.
        let next = Head(0x82, payload: 6, form: 2, isMasked: true).frame
        let bytes = first + ping + last + next
        for (limit, frame, head) in [(2, 0, 2), (4, 8, 2), (5, 12, 8), (6, nil, 0)] as [(UInt64, Int?, Int)] {
            for cut in 0...bytes.count {
                var scan = WebSocketFrameTracker()
                var result = scan.advance(over: ByteBuffer(bytes: bytes[..<cut]), limit: limit)
                if result == nil {
                    result = scan.advance(over: ByteBuffer(bytes: bytes[cut...]), limit: limit).map { cut + $0 }
                }
                // Part of the head was forwarded before it was complete.
                let isCut = frame.map { $0 < cut && cut < $0 + head } ?? false
                expect(result, equals: (isCut ? cut : frame), "limit \(limit), cut at \(cut)")
                expect(scan.isAtFrameBoundary, equals: !isCut, "limit \(limit), cut at \(cut)")
            }
        }
    }

    @Test("Rule 84: a message that never ends and a long control frame are too large")
    func endlessMessage() {
        var scan = WebSocketFrameTracker()
        for _ in 0..<10 { expect(scan.advance(over: ByteBuffer(bytes: [0x02, 1, 0]), limit: 10), equals: nil) }
        expect(scan.advance(over: ByteBuffer(bytes: [0x02, 1, 0]), limit: 10), equals: 0)
        for (form, payload, result) in [(0, 125, nil), (2, 126, 0)] as [(Int, Int, Int?)] {
            let ping = Head(0x89, payload: payload, form: form, isMasked: false).frame
            var scan = WebSocketFrameTracker()
            expect(scan.advance(over: ByteBuffer(bytes: ping), limit: 10), equals: result)
            expect(Self.scan(ping).isAtFrameBoundary)
        }
        // Together more than 2⁶⁴ bytes: too large with any limit, and none without one.
        let sum = ByteBuffer(bytes: [0x01, 1, 0, 0x80, 127] + [UInt8](repeating: 0xff, count: 8))
        var (limited, unlimited) = (WebSocketFrameTracker(), WebSocketFrameTracker())
        expect(limited.advance(over: sum, limit: 1 << 30), equals: 3)
        expect(unlimited.advance(over: sum), equals: nil)
        expect(!unlimited.isAtFrameBoundary)
    }

    @Test("Only the readable bytes are scanned")
    func readerIndex() {
        var bytes = ByteBuffer(bytes: [0xff, 0xff, 0x81, 1, 0x61, 0x81])
        bytes.moveReaderIndex(forwardBy: 2)
        bytes.moveWriterIndex(to: bytes.writerIndex - 1)
        var scan = WebSocketFrameTracker()
        scan.advance(over: bytes)
        expect(scan.isAtFrameBoundary)
    }
}

@Suite("WebSocket close frame (RFC 6455 §5.5.1)")
struct WebSocketCloseTests {
    @Test("A frame to a client is not masked (RFC 6455 §5.1)")
    func toClient() {
        expect(WebSocketClose.frame(.goingAway, mask: nil), equals: ByteBuffer(bytes: [0x88, 2, 0x03, 0xe9]))
        expect(WebSocketClose.frame(.policyViolation, mask: nil), equals: ByteBuffer(bytes: [0x88, 2, 0x03, 0xf0]))
    }

    @Test("A frame to a server is masked (RFC 6455 §5.3)")
    func toServer() {
        let frame = WebSocketClose.frame(.policyViolation, mask: 0x1234_5678)
        expect(frame, equals: ByteBuffer(bytes: [0x88, 0x82, 0x12, 0x34, 0x56, 0x78, 0x03 ^ 0x12, 0xf0 ^ 0x34]))
    }

    @Test("It is one frame with any mask", arguments: [nil, 0, .max, 0x8000_0001] as [UInt32?])
    func oneFrame(mask: UInt32?) {
        var scan = WebSocketFrameTracker()
        scan.advance(over: WebSocketClose.frame(.goingAway, mask: mask))
        expect(scan.isAtFrameBoundary)
    }
}
