import CloakroomCore
import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// A body in the chunked coding (RFC 9112 §7.1), parsed by the decoder and by a simple reference parser.
    static let chunks = FuzzTarget(
        "chunks",
        words: [
            "\r\n", "\r", "\n", "0\r\n\r\n", "0\r\n", "1\r\na\r\n", ";a=b", ";a=\"b\"", "A: b\r\n", ":", " ", "\t", "+",
            "0x",
            "ffffffffffffffff", "7fffffffffffffff", "0000000000000000", "Content-Length: 1\r\n", "X-API-TOKEN: a\r\n",
        ]
    ) { bytes throws(Violation) in
        let whole = ChunkedReading(bytes, pieces: [bytes.count])
        for pieces in [Segments.single(in: bytes), Segments.random(in: bytes), Segments.random(in: bytes, turn: 1)] {
            try require(
                ChunkedReading(bytes, pieces: pieces) == whole, "parsed differently when cut at \(pieces.prefix(16))")
        }
        let plain = PlainChunks(bytes)
        switch plain.end {
        case .rejected: try require(whole.error != nil, "should have been rejected")
        case .incomplete: try require(whole.error == nil && !whole.isComplete, "is not complete")
        case .complete(let count):
            try require(
                whole.error == nil && whole.isComplete, "should have been accepted: \(String(describing: whole.error))")
            try require(whole.leftover == Array(bytes[count...]), "another end was found")
            try require(whole.body == plain.body, "the body was parsed differently")
            try require(
                whole.trailers.map { Array($0.bytes.readableBytesView) } ?? [] == plain.trailers,
                "the trailer section was parsed differently")
        }
        if let section = whole.trailers {
            try MessageChecks.checkTrailers(section, policy: TrailerPolicy(injectable: Forbidden.injectable))
        }
    }
}

/// The result of the decoder.
private struct ChunkedReading: Equatable {
    var body: [UInt8] = []
    var trailers: TrailerSection?
    var isComplete = false
    var error: WireError?
    var leftover: [UInt8] = []

    init(_ bytes: [UInt8], pieces: [Int]) {
        var decoder = BodyDecoder(.chunked)
        var buffer = ByteBuffer()
        var start = 0
        for end in pieces where error == nil {
            buffer.writeBytes(bytes[start..<end])
            start = end
            do throws(WireError) {
                while !isComplete, try step(&decoder, &buffer) {}
            } catch {
                self.error = error
            }
        }
        if error == nil { leftover = Array(buffer.readableBytesView) }
    }

    private mutating func step(_ decoder: inout BodyDecoder, _ buffer: inout ByteBuffer) throws(WireError) -> Bool {
        switch try decoder.next(&buffer) {
        case .data(let piece): body += piece.readableBytesView
        case .needMoreData: return false
        case .end:
            isComplete = true
            trailers = decoder.takeTrailers()
        }
        return true
    }
}

/// A reference parser of the chunked coding: it has all bytes, and parses line by line.
private struct PlainChunks {
    enum End {
        case complete(Int)
        case incomplete
        case rejected
    }

    private(set) var body: [UInt8] = []
    private(set) var trailers: [UInt8] = []
    private(set) var end = End.incomplete
    private let bytes: [UInt8]
    private var index = 0
    private var extensionCount = 0

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        while readChunk() {}
    }

    /// - Returns: Whether another chunk follows.
    private mutating func readChunk() -> Bool {
        extensionCount += bytes[index...].prefix { $0 != 0x0d && $0 != 0x0a }.drop { $0 != UInt8(ascii: ";") }.count
        guard extensionCount <= 4_096 else {
            end = .rejected
            return false
        }
        guard let line = line(isAcceptable: Self.isBeginOfSizeLine) else { return false }
        let digits = line.prefix { $0 != UInt8(ascii: ";") }
        guard let size = Int(String(decoding: digits, as: UTF8.self), radix: 16) else {
            end = .rejected
            return false
        }
        if size == 0 {
            readTrailers()
            return false
        }
        guard bytes.count - index >= size else {
            body += bytes[index...]
            index = bytes.count
            return false
        }
        body += bytes[index..<(index + size)]
        index += size
        let behind = Array(bytes[index...].prefix(2))
        if behind != Array([0x0d, 0x0a].prefix(behind.count)) { end = .rejected }
        guard behind == [0x0d, 0x0a] else { return false }
        index += 2
        return true
    }

    private mutating func readTrailers() {
        let start = index
        var count = 0
        while let line = line(isAcceptable: Self.isBeginOfTrailer), count <= 100 {
            if line.isEmpty {
                trailers = Array(bytes[start..<(index - 2)])
                end = index - start > 8_192 ? .rejected : .complete(index)
                return
            }
            count += 1
        }
        if count > 100 || bytes.count - start >= 8_192 { end = .rejected }
    }

    /// Consumes a line with its end. If the line is incomplete, checks whether a continuation could make it valid.
    private mutating func line(isAcceptable: (ArraySlice<UInt8>, Bool) -> Bool) -> ArraySlice<UInt8>? {
        let rest = bytes[index...]
        let line = rest.prefix { $0 != 0x0d && $0 != 0x0a }
        let lineEnd = rest.dropFirst(line.count).prefix(2)
        let isWhole = !lineEnd.isEmpty
        let isEnded = lineEnd.elementsEqual([0x0d, 0x0a])
        guard isAcceptable(line, isWhole), isEnded || lineEnd.isEmpty || lineEnd.elementsEqual([0x0d]) else {
            end = .rejected
            return nil
        }
        guard isEnded else { return nil }
        index += line.count + 2
        return line
    }

    private static func isBeginOfSizeLine(_ line: ArraySlice<UInt8>, isWhole: Bool) -> Bool {
        let digits = line.prefix { $0 != UInt8(ascii: ";") }
        let extensions = line.dropFirst(digits.count)
        guard digits.allSatisfy(isHexadecimal), digits.count <= 16, !isWhole && extensions.isEmpty || !digits.isEmpty
        else { return false }
        if !digits.isEmpty, Int(String(decoding: digits, as: UTF8.self), radix: 16) == nil { return false }
        // The possible endings that an incomplete line may lack.
        let ends = isWhole ? [""] : ["", "a", "\"", "a\""]
        return ends.contains { isExtensions(Array(extensions) + $0.utf8) }
    }

    /// `*( ";" token [ "=" ( token / quoted-string ) ] )`, without white space.
    private static func isExtensions(_ text: [UInt8]) -> Bool {
        var rest = text[...]
        while let first = rest.popFirst() {
            guard first == UInt8(ascii: ";"), takeToken(&rest) else { return false }
            guard rest.first == UInt8(ascii: "=") else { continue }
            rest.removeFirst()
            guard rest.first == UInt8(ascii: "\"") ? takeQuoted(&rest) : takeToken(&rest) else { return false }
        }
        return true
    }

    private static func takeToken(_ rest: inout ArraySlice<UInt8>) -> Bool {
        let token = rest.prefix(while: PlainHead.isToken)
        rest.removeFirst(token.count)
        return !token.isEmpty
    }

    private static func takeQuoted(_ rest: inout ArraySlice<UInt8>) -> Bool {
        rest.removeFirst()
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "\"") { return true }
            let text = byte == UInt8(ascii: "\\") ? rest.popFirst() : byte
            guard text.map(isText) == true else { return false }
        }
        return false
    }

    private static func isBeginOfTrailer(_ line: ArraySlice<UInt8>, isWhole: Bool) -> Bool {
        if line.isEmpty { return true }
        let name = line.prefix { $0 != UInt8(ascii: ":") }
        guard !name.isEmpty, name.allSatisfy(PlainHead.isToken) else { return false }
        if isWhole, name.count == line.count { return false }
        return line.dropFirst(name.count).allSatisfy(isText)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        "0123456789abcdefABCDEF".utf8.contains(byte)
    }

    private static func isText(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte != 0x7f || byte == 0x09
    }
}
