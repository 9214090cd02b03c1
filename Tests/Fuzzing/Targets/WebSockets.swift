import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// The frames of a WebSocket connection (RFC 6455 §5.2): their ends must be found however the bytes are cut.
    static let webSockets = FuzzTarget(
        "websockets",
        words: ["\u{1}\u{5}hello", "\u{8}\u{0}", "\u{1}\u{7e}\u{0}\u{2}hi", "\u{2}\u{7f}", "\u{0}\u{0}\u{0}\u{0}"]
    ) { bytes throws(Violation) in
        let ends = WebSocketFrames.ends(bytes)
        var single = WebSocketFrameTracker()
        for index in bytes.indices {
            try require(single.isAtFrameBoundary == ends.contains(index), "wrong frame boundary at \(index)")
            single.advance(over: ByteBuffer(bytes: bytes[index...index]))
        }
        try require(single.isAtFrameBoundary == ends.contains(bytes.count), "wrong state after the last frame")
        for turn in UInt64(0)..<3 {
            var scan = WebSocketFrameTracker()
            var start = 0
            for end in Segments.random(in: bytes, turn: turn) {
                scan.advance(over: ByteBuffer(bytes: bytes[start..<end]))
                start = end
                try require(scan.isAtFrameBoundary == ends.contains(end), "wrong frame boundary with a cut at \(end)")
            }
            try require(scan == single, "the cuts change the result")
        }
    }
}

private enum WebSocketFrames {
    /// The ends of frames, by a reference parser; 0 is the first one.
    static func ends(_ bytes: [UInt8]) -> Set<Int> {
        var ends: Set<Int> = []
        var start = 0
        while start <= bytes.count {
            ends.insert(start)
            guard start + 2 <= bytes.count else { break }
            let short = Int(bytes[start + 1] & 0x7f)
            let lengthCount = short == 126 ? 2 : short == 127 ? 8 : 0
            let headCount = 2 + lengthCount + (bytes[start + 1] & 0x80 == 0 ? 0 : 4)
            guard start + headCount <= bytes.count else { break }
            let long = bytes[(start + 2)..<(start + 2 + lengthCount)].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            let length = lengthCount == 0 ? UInt64(short) : long
            guard length <= UInt64(bytes.count - start - headCount) else { break }
            start += headCount + Int(length)
        }
        return ends
    }
}
