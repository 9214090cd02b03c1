public import NIOCore

/// Takes a body out of its framing, from bytes that come in whatever pieces.
public struct BodyDecoder: Sendable {
    /// What the next step gave.
    public enum Step: Sendable, Equatable {
        /// Some of the body.
        case data(ByteBuffer)
        /// The body is over. What is left in the buffer belongs to the next message.
        case end
        /// Nothing without more bytes.
        case needMoreData
    }

    private enum State {
        case done
        case length(Int)
        case chunked(ChunkDecoder)
        case untilClose
        /// The body is over; nobody has asked for its trailers yet.
        case trailers(TrailerSection)
    }

    private var state: State

    /// Makes a decoder for one body.
    public init(_ framing: BodyFraming) {
        switch framing {
        case .none: state = .done
        case .length(let length): state = length > 0 ? .length(length) : .done
        case .chunked: state = .chunked(ChunkDecoder())
        case .untilClose: state = .untilClose
        }
    }

    /// Whether the body is over, without looking at more bytes.
    public var isDone: Bool {
        switch state {
        case .done, .trailers: true
        case .length, .chunked, .untilClose: false
        }
    }

    /// The trailers of a body that is over, the first time; `nil` if there are none.
    public mutating func takeTrailers() -> TrailerSection? {
        guard case .trailers(let section) = state else { return nil }
        state = .done
        return section
    }

    /// Takes the next piece of body from the front of the buffer.
    /// - Throws: ``WireError`` if the framing is broken. The decoder is of no use after that.
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

    /// The connection was closed by the peer.
    /// - Returns: Whether the body was complete with that.
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
