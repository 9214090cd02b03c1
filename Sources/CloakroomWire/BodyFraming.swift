public import NIOCore

/// How the end of a body is determined (RFC 9112 §6.3).
public enum BodyFraming: Sendable, Equatable {
    /// There is no body.
    case none
    /// The number of bytes; never 0.
    case length(Int)
    /// The chunked transfer coding.
    case chunked
    /// The body ends when the connection is closed: responses only.
    case untilClose
}

extension BodyFraming {
    /// Determines the framing of a request's body.
    /// - Throws: ``WireError`` if the framing is ambiguous or malformed.
    public static func of(_ head: borrowing RequestHead) throws(WireError) -> BodyFraming {
        switch try FramingFields.of(head.fields, head.bytes.readableBytesUInt8Span, minorVersion: head.minorVersion) {
        case .absent: .none
        case .length(let length): length == 0 ? .none : .length(length)
        case .chunked: .chunked
        }
    }

    /// Determines the framing of a response's body.
    /// - Parameter isToHead: Whether the response is to a `HEAD` request.
    /// - Throws: ``WireError`` if the framing is ambiguous or malformed.
    public static func of(_ head: borrowing ResponseHead, isToHead: Bool) throws(WireError) -> BodyFraming {
        let fields = try FramingFields.of(
            head.fields, head.bytes.readableBytesUInt8Span, minorVersion: head.minorVersion)
        if isToHead || head.status < 200 || head.status == 204 || head.status == 304 { return .none }
        switch fields {
        case .absent: return .untilClose
        case .length(let length): return length == 0 ? .none : .length(length)
        case .chunked: return .chunked
        }
    }
}

/// The framing fields of a message.
private enum FramingFields {
    case absent
    case length(Int)
    case chunked

    /// No initializer, because that would own the fields and count a reference.
    static func of(_ fields: [FieldSlice], _ bytes: Span<UInt8>, minorVersion: UInt8) throws(WireError) -> Self {
        var length: Int?
        var isChunked = false
        for field in fields {
            if field.name == .contentLength {
                guard length == nil, let value = Self.decimal(bytes, field.valueRange) else { throw .contentLength }
                length = value
            } else if field.name == .transferEncoding {
                guard minorVersion == 1, !isChunked else { throw .transferCoding }
                try Self.checkChunked(bytes, field.valueRange)
                isChunked = true
            }
        }
        switch (length, isChunked) {
        case (.some, true): throw .lengthAndCoding
        case (.some(let length), false): return .length(length)
        case (nil, true): return .chunked
        case (nil, false): return .absent
        }
    }

    /// Parses 1 to 18 digits and nothing else, so the value is less than `Int.max`.
    private static func decimal(_ bytes: Span<UInt8>, _ range: ByteRange) -> Int? {
        guard range.count >= 1, range.count <= 18 else { return nil }
        var value = 0
        for index in range.start..<range.end {
            guard let digit = Byte.decimal(bytes[index]) else { return nil }
            value = value * 10 + digit
        }
        return value
    }

    /// Only `chunked` is supported. Another coding, alone or before `chunked`, is unsupported; a coding after
    /// `chunked`, or `chunked` twice, is malformed.
    private static func checkChunked(_ bytes: Span<UInt8>, _ range: ByteRange) throws(WireError) {
        if isChunked(bytes, range.start, range.end) { return }
        var start = range.start
        var seenChunked = false
        while start <= range.end {
            var end = start
            while end < range.end, bytes[end] != 0x2c { end += 1 }
            var first = start
            var last = end
            while first < last, Byte.isBlank(bytes[first]) { first += 1 }
            while last > first, Byte.isBlank(bytes[last - 1]) { last -= 1 }
            if seenChunked { throw .transferCoding }
            if isChunked(bytes, first, last) {
                seenChunked = true
            } else if first == last || !isCoding(bytes, first, last) {
                throw .transferCoding
            }
            start = end + 1
        }
        throw .unknownCoding
    }

    private static func isChunked(_ bytes: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        guard end - start == 7 else { return false }
        // "chunked" packed into one word, lower case.
        let expected: UInt64 = 0x63_68_75_6e_6b_65_64
        var word: UInt64 = 0
        for index in start..<end { word = word << 8 | UInt64(bytes[index] | 0x20) }
        return word == expected
    }

    private static func isCoding(_ bytes: Span<UInt8>, _ start: Int, _ end: Int) -> Bool {
        for index in start..<end where !Byte.isToken(bytes[index]) { return false }
        return true
    }
}

/// Decodes the framing of a body, from input in pieces of any size.
public struct BodyDecoder: Sendable {
    /// The result of a decoding step.
    public enum Step: Sendable, Equatable {
        /// A part of the body.
        case data(ByteBuffer)
        /// The body is complete. The remaining bytes of the buffer belong to the next message.
        case end
        /// More bytes are needed.
        case needMoreData
    }

    private enum State {
        case done
        case length(Int)
        case chunked(ChunkDecoder)
        case untilClose
        /// The body is complete and has trailers that were not read yet.
        case trailers(TrailerSection)
    }

    private var state: State

    /// Creates a decoder for one body.
    public init(_ framing: BodyFraming) {
        switch framing {
        case .none: state = .done
        case .length(let length): state = length > 0 ? .length(length) : .done
        case .chunked: state = .chunked(ChunkDecoder())
        case .untilClose: state = .untilClose
        }
    }

    /// Whether the body is complete, without reading more bytes.
    public var isDone: Bool {
        switch state {
        case .done, .trailers: true
        case .length, .chunked, .untilClose: false
        }
    }

    /// Returns the trailers of a complete body on the first call; `nil` if there are none.
    public mutating func takeTrailers() -> TrailerSection? {
        guard case .trailers(let section) = state else { return nil }
        state = .done
        return section
    }

    /// Decodes the next part of the body from the front of the buffer.
    /// - Throws: ``WireError`` if the framing is malformed. The decoder is then unusable.
    public mutating func next(_ buffer: inout ByteBuffer) throws(WireError) -> Step {
        switch state {
        case .done, .trailers:
            return .end
        case .length(let remaining):
            let count = min(remaining, buffer.readableBytes)
            guard count > 0, let slice = buffer.readSlice(length: count) else { return .needMoreData }
            state = count == remaining ? .done : .length(remaining - count)
            return .data(slice)
        case .untilClose:
            guard buffer.readableBytes > 0, let slice = buffer.readSlice(length: buffer.readableBytes) else {
                return .needMoreData
            }
            return .data(slice)
        case .chunked(var chunks):
            switch try chunks.next(&buffer) {
            case .data(let bytes):
                state = .chunked(chunks)
                return .data(bytes)
            case .needMoreData:
                state = .chunked(chunks)
                return .needMoreData
            case .end(let section):
                state = section.map(State.trailers) ?? .done
                return .end
            }
        }
    }

    /// Handles the end of the connection by the peer.
    /// - Returns: Whether the body is complete.
    public mutating func close() -> Bool {
        switch state {
        case .done, .trailers: return true
        case .untilClose:
            state = .done
            return true
        case .length, .chunked: return false
        }
    }
}
