import NIOCore

/// Reads the chunked transfer coding, strictly (RFC 9112 §7.1). Extensions are checked and left out; so are trailers.
struct ChunkDecoder: Sendable {
    private enum State {
        /// In a chunk's size; so many digits have been read.
        case size(value: UInt64, digits: Int)
        /// Behind the size, before the end of the line.
        case extensions(size: UInt64)
        /// The line feed behind a size line is due.
        case sizeLineFeed(size: UInt64)
        case data(remaining: UInt64)
        case dataCarriageReturn
        case dataLineFeed
        /// In the trailer section, at the start of a line.
        case trailerStart
        case trailerName
        case trailerValue
        case trailerLineFeed
        case lastLineFeed
    }

    /// The most bytes that extensions may take over all chunks of a body: no use of them needs more.
    private static let extensionLimit = 4_096
    /// The most bytes of a trailer section.
    private static let trailerLimit = 8_192

    private var state = State.size(value: 0, digits: 0)
    private var extensionBytes = 0
    private var trailerBytes = 0

    mutating func next(_ buffer: inout ByteBuffer) throws(WireError) -> BodyDecoder.Step {
        while true {
            if case .data(let remaining) = state {
                let count = Int(min(remaining, UInt64(buffer.readableBytes)))
                guard count > 0, let slice = buffer.readSlice(length: count) else { return .needsMore }
                let left = remaining - UInt64(count)
                state = left == 0 ? .dataCarriageReturn : .data(remaining: left)
                return .data(slice)
            }
            guard let byte = buffer.readInteger(as: UInt8.self) else { return .needsMore }
            if try take(byte) { return .end }
        }
    }

    /// Takes a byte of the framing.
    /// - Returns: Whether the body is over with it.
    private mutating func take(_ byte: UInt8) throws(WireError) -> Bool {
        switch state {
        case .size(let value, let digits):
            if let digit = Byte.hexadecimal(byte) {
                guard digits < 16, value <= UInt64(Int64.max) >> 4 else { throw .chunkSize }
                state = .size(value: value << 4 | digit, digits: digits + 1)
            } else if digits == 0 {
                throw .chunkSize
            } else if byte == Byte.cr {
                state = .sizeLineFeed(size: value)
            } else if byte == Byte.semicolon {
                state = .extensions(size: value)
                try countExtensionByte()
            } else {
                throw byte == Byte.lf ? .lineEnd : .chunkSize
            }
        case .extensions(let size):
            if byte == Byte.cr {
                state = .sizeLineFeed(size: size)
            } else if byte == Byte.lf {
                throw .lineEnd
            } else if Byte.isFieldText(byte) {
                try countExtensionByte()
            } else {
                throw .chunkExtension
            }
        case .sizeLineFeed(let size):
            guard byte == Byte.lf else { throw .lineEnd }
            state = size == 0 ? .trailerStart : .data(remaining: size)
        case .dataCarriageReturn:
            guard byte == Byte.cr else { throw .chunkEnd }
            state = .dataLineFeed
        case .dataLineFeed:
            guard byte == Byte.lf else { throw .chunkEnd }
            state = .size(value: 0, digits: 0)
        case .data:
            throw .chunkEnd
        case .trailerStart, .trailerName, .trailerValue, .trailerLineFeed, .lastLineFeed:
            return try takeTrailer(byte)
        }
        return false
    }

    private mutating func takeTrailer(_ byte: UInt8) throws(WireError) -> Bool {
        trailerBytes += 1
        guard trailerBytes <= Self.trailerLimit else { throw .trailer }
        switch state {
        case .trailerStart:
            if byte == Byte.cr {
                state = .lastLineFeed
            } else if Byte.isToken(byte) {
                state = .trailerName
            } else {
                throw byte == Byte.lf ? .lineEnd : .trailer
            }
        case .trailerName:
            if byte == Byte.colon {
                state = .trailerValue
            } else if !Byte.isToken(byte) {
                throw .trailer
            }
        case .trailerValue:
            if byte == Byte.cr {
                state = .trailerLineFeed
            } else if !Byte.isFieldText(byte) {
                throw byte == Byte.lf ? .lineEnd : .trailer
            }
        case .trailerLineFeed:
            guard byte == Byte.lf else { throw .lineEnd }
            state = .trailerStart
        case .lastLineFeed:
            guard byte == Byte.lf else { throw .lineEnd }
            return true
        case .size, .extensions, .sizeLineFeed, .data, .dataCarriageReturn, .dataLineFeed:
            throw .trailer
        }
        return false
    }

    private mutating func countExtensionByte() throws(WireError) {
        extensionBytes += 1
        guard extensionBytes <= Self.extensionLimit else { throw .chunkExtension }
    }
}
