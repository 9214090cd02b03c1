import CloakroomHTTP2
import CloakroomWire
import NIOCore
import TestSupport

extension FuzzTarget {
    /// The header blocks of a connection, each after its length in two bytes. A plain decoder and a model of RFC 9113
    /// §8 determine the results; limits, trailers and compaction must not change the table.
    static let headerBlocks = FuzzTarget(
        "header-blocks",
        words: [
            "\u{0}\u{1}", "\u{0}\u{10}", "\u{20}", "\u{3f}", "\u{40}", "\u{10}", "\u{0}", "\u{7f}", ":path", ":method",
            ":scheme", ":authority", ":protocol", "cookie", "host", "te", "trailers", "connection", "priority",
            "u=1, i",
            "CONNECT", "websocket", "OPTIONS", "*", "https",
        ],
        times: [
            LinearTime([
                .made("indexed fields") { count in HeaderBlocks.block([UInt8](repeating: 0x90, count: count)) },
                .made("a large entry") { count in
                    let value = [UInt8](repeating: 0x61, count: 1_000)
                    return HeaderBlocks.block(
                        [0x40, 1, 0x78, 0x7f, 0xe9, 0x06] + value + [UInt8](repeating: 0xbe, count: count))
                },
                .made("inserted fields") { count in
                    HeaderBlocks.block((0..<(count / 4)).flatMap { _ in [0x40, 1, 0x78, 0] as [UInt8] })
                },
                .made("cookies") { count in
                    HeaderBlocks.block(
                        [0x82, 0x87, 0x84, 0x01, 0x01, 0x61]
                            + (0..<(count / 4)).flatMap { _ in [0x0f, 0x11, 1, 0x61] as [UInt8] })
                },
                .made("scattered cookies") { count in
                    HeaderBlocks.block(
                        [0x82, 0x87, 0x84, 0x01, 0x01, 0x61]
                            + (0..<(count / 8)).flatMap { _ in [0x0f, 0x11, 1, 0x61, 0, 1, 0x78, 0] as [UInt8] })
                },
                .made("Huffman code") { count in
                    // The length of the string is that of the input, as an integer of three bytes (RFC 7541 §5.1).
                    let length = count - 127
                    return HeaderBlocks.block(
                        [0x00, 1, 0x78, 0xff, UInt8(length & 0x7f) | 0x80, UInt8(length >> 7 & 0x7f) | 0x80]
                            + [UInt8(length >> 14)] + [UInt8](repeating: 0, count: count))
                },
            ]) { try? HeaderBlocks.decode($0) }
        ]
    ) { bytes throws(Violation) in
        var connection = HeaderBlocks.Connection()
        for block in HeaderBlocks.split(bytes) {
            guard try connection.check(block) else { return }
        }
    }

    /// A string in Huffman code, decoded as the plain decoder does, and encoded to the same bytes.
    static let huffman = FuzzTarget("huffman", words: ["\u{0}", "\u{7f}", "?", "aaa"]) { bytes throws(Violation) in
        let huffman = Huffman.shared
        var room = [UInt8](repeating: 0, count: Huffman.maxDecodedCount(bytes.count))
        var span = room.mutableSpan
        let count = huffman.decode(bytes.span, from: 0, count: bytes.count, into: &span, at: 0)
        let text = count.map { Array(room[..<$0]) }
        try require(text == HeaderBlocks.huffman.decode(bytes), "the plain decoder has another result")
        try require(
            huffman.decodedCount(bytes.span, from: 0, count: bytes.count) == count, "the length differs")
        let source = text ?? bytes
        var encoded = [UInt8](repeating: 0, count: huffman.encodedCount(source.span, from: 0, count: source.count))
        var target = encoded.mutableSpan
        huffman.encode(source.span, from: 0, count: source.count, into: &target, at: 0)
        if text != nil { try require(encoded == bytes, "the encoding differs") }
        try require(HeaderBlocks.huffman.decode(encoded) == source, "the encoding is not valid")
    }
}

private enum HeaderBlocks {
    static let huffman = HuffmanReference(lengths: HuffmanLengths.all)
    static let reference = HPACKReference(lengths: HuffmanLengths.all, fixed: StaticTable.fields)
    static let largest = HeadLimits(head: 65_535, fields: 10_000, target: 65_535)
    static let smallest = HeadLimits(head: 1_024, fields: 5, target: 40)

    /// A block after its length.
    static func block(_ bytes: [UInt8]) -> [UInt8] {
        [UInt8(truncatingIfNeeded: bytes.count >> 8), UInt8(truncatingIfNeeded: bytes.count)] + bytes
    }

    static func split(_ bytes: [UInt8]) -> [[UInt8]] {
        var blocks: [[UInt8]] = []
        var rest = bytes[...]
        while rest.count > 2 {
            let count = Int(rest[rest.startIndex]) << 8 | Int(rest[rest.startIndex + 1])
            rest = rest.dropFirst(2)
            blocks.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return blocks
    }

    /// Decodes one block on a new connection.
    static func decode(_ bytes: [UInt8]) throws(HPACKError) {
        var decoder = HPACKDecoder()
        var head = RequestHead()
        _ = try decoder.decodeRequest(bytes.span.extracting(droppingFirst: 2), limits: largest, into: &head)
    }

    /// Decoders of the same blocks.
    struct Connection: ~Copyable {
        private var decoder = HPACKDecoder()
        private var small = HPACKDecoder()
        private var trailers = HPACKDecoder()
        private var reference = HeaderBlocks.reference
        private var head = RequestHead()

        /// Decodes a block.
        /// - Returns: Whether the connection is still usable.
        mutating func check(_ block: [UInt8]) throws(Violation) -> Bool {
            let fields = try? reference.decode(block)
            let result = try? decoder.decodeRequest(block.span, limits: HeaderBlocks.largest, into: &head)
            var other = RequestHead()
            let smallResult = try? small.decodeRequest(block.span, limits: HeaderBlocks.smallest, into: &other)
            let section = try? trailers.decodeTrailers(block.span)
            try require((result == nil) == (fields == nil), "validity differs from the plain decoder")
            try require((smallResult == nil) == (fields == nil), "limits change the validity")
            try require((section == nil) == (fields == nil), "validity as trailers differs")
            guard let result, let fields, let smallResult else { return false }
            let lines = reference.table.map(\.line)
            try require(decoder.tableLines == lines, "the table differs")
            try require(small.tableLines == lines, "the table differs with small limits")
            try require(trailers.tableLines == lines, "the table differs with trailers")
            try checkResult(result, RequestModel(fields), size: fields.reduce(0) { $0 + $1.line.count })
            try require(
                smallResult != .malformed || result == .malformed, "limits make a valid request malformed")
            if case .request = smallResult {
                try require(smallResult == result && other.bytes == head.bytes, "limits change a request")
            }
            if block.count % 3 == 0 { decoder.compact() }
            return true
        }

        private func checkResult(_ result: RequestBlockResult, _ model: RequestModel?, size: Int) throws(Violation) {
            switch result {
            case .request(let block):
                guard let model else { throw Violation("a malformed request is accepted") }
                try checkHead(model)
                let tunnel: TunnelProtocol =
                    switch model.tunnel {
                    case nil: .none
                    case "websocket"?: .webSocket
                    case _?: .other
                    }
                try require(block.tunnel == tunnel, "the tunnel differs")
                try require(block.urgency <= 7, "an invalid urgency")
            case .malformed: try require(model == nil, "a valid request is malformed")
            case .tooLarge: try require(size > 60_000, "\(size) bytes are too large")
            }
        }

        private func checkHead(_ model: RequestModel) throws(Violation) {
            let bytes = Array(head.bytes.readableBytesView)
            func text(_ range: ByteRange) -> [UInt8] { Array(bytes[range.start..<range.end]) }
            try require(text(head.method) == Array(model.method.utf8), "the method differs")
            try require(String(decoding: text(head.target), as: UTF8.self) == model.target, "the target differs")
            try require(
                head.fields.map { text($0.nameRange) } == model.fields.map(\.name)
                    && head.fields.map { text($0.valueRange) } == model.fields.map(\.value), "the fields differ")
            // The lines after the pseudo-fields are those of the fields, without anything between them.
            let regular = head.fields.filter { bytes[Int($0.nameStart)] != UInt8(ascii: ":") }
            var end = regular.first.map { Int($0.nameStart) } ?? bytes.count - 2
            for field in regular {
                try require(Int(field.nameStart) == end, "a gap between lines")
                end = field.valueRange.end + 2
            }
            try require(end == bytes.count - 2 && bytes.suffix(2) == [0x0d, 0x0a], "the end of the head")
        }
    }
}
