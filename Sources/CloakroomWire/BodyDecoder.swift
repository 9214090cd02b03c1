public import NIOCore

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
