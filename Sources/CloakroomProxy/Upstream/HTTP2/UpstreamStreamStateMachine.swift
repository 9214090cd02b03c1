import CloakroomCore
import CloakroomWire
import NIOCore
import NIOHPACK

/// State of the response on one stream of an HTTP/2 connection to an upstream (RFC 9113 §8.1): in which order its
/// sections are valid, and how long its body is.
///
/// Pure state machine, no I/O.
struct UpstreamStreamStateMachine {
    private enum State {
        case awaitingHead
        /// The body is expected; with `Content-Length`, the number of bytes that are missing.
        case body(remaining: Int?)
        /// The response is complete, has failed, or is not needed.
        case ended
    }

    private var state = State.awaitingHead
    private var request: UpstreamRequest
    private let converter: HTTP2ResponseHead
    private var removed = RemovedResponseFields()
    /// Bytes of the heads of all interim responses, decompressed.
    private var interimBytes = 0
    /// Maximum of their sum: with HPACK, a few bytes of an upstream can become a whole head.
    static let maximumInterimBytes = 262_144
    /// Whether the head of the final response was received.
    private(set) var hasHead = false

    init(_ request: UpstreamRequest, limits: HeadLimits) {
        self.request = request
        converter = HTTP2ResponseHead(limits: limits)
    }

    var isEnded: Bool { if case .ended = state { true } else { false } }

    // MARK: - Frames

    enum HeadersAction: Equatable {
        /// Deliver an interim response.
        case informational
        /// Deliver the head, and the end if there is no body.
        case head(ResponseHeaderPolicy.ResponseHeaderSummary, BodyFraming, isEnd: Bool)
        /// The trailer section was received, which ends the response.
        case end(TrailerSection?)
        /// The response is invalid: reset the stream.
        case fail
        /// The response is not needed.
        case ignore
    }

    /// A HEADERS frame was received.
    /// - Parameter head: Receives the head of a final or interim response. Reset by the caller.
    mutating func headersReceived(
        _ list: HPACKHeaders, endsStream: Bool, into head: inout ResponseHead
    ) -> HeadersAction {
        do throws(HTTP2ResponseHead.Problem) {
            switch state {
            case .awaitingHead:
                try converter.convert(list, into: &head)
                return try headReceived(&head, endsStream: endsStream)
            case .body(let remaining):
                guard endsStream, remaining ?? 0 == 0 else { throw .malformed }
                let trailers = try converter.trailers(list)
                state = .ended
                return .end(trailers)
            case .ended:
                return .ignore
            }
        } catch {
            state = .ended
            return .fail
        }
    }

    private mutating func headReceived(
        _ head: inout ResponseHead, endsStream: Bool
    ) throws(HTTP2ResponseHead.Problem) -> HeadersAction {
        let isInterim = head.status < 200
        guard !isInterim || !endsStream else { throw .malformed }
        var framing: BodyFraming
        do { framing = try BodyFraming.of(head, isToHead: request.isHeadRequest) } catch { throw .malformed }
        let hasNoBody = request.isHeadRequest || head.status == 204 || head.status == 304
        if !isInterim, endsStream {
            if case .length = framing { throw .malformed }
            // HTTP/1.1 clients need to know that there is no body. A gRPC response of this form consists of trailers.
            if framing == .untilClose, !isGRPC(head) { converter.add("content-length", "0", to: &head) }
            framing = .none
        } else if framing == .untilClose {
            framing = .chunked
        }
        let summary = request.apply(to: &head)
        removed = summary.removed
        guard !isInterim else {
            interimBytes += head.bytes.readableBytes
            guard request.mayBeInterim(), interimBytes <= Self.maximumInterimBytes else { throw .malformed }
            return .informational
        }
        hasHead = true
        guard !endsStream else {
            state = .ended
            return .head(summary, .none, isEnd: true)
        }
        switch framing {
        case .none: state = .body(remaining: 0)
        case .length(let length): state = .body(remaining: hasNoBody ? 0 : length)
        case .chunked, .untilClose: state = .body(remaining: nil)
        }
        return .head(summary, framing, isEnd: false)
    }

    private func isGRPC(_ head: borrowing ResponseHead) -> Bool {
        let bytes = head.bytes.readableBytesUInt8Span
        for field in head.fields where field.name == .contentType {
            let value = bytes.extracting(field.valueRange.start..<field.valueRange.end)
            if GRPCContentType.matches(value) { return true }
        }
        return false
    }

    enum DataAction: Equatable {
        case deliver
        /// Deliver the bytes and the end of the response.
        case deliverAndEnd
        /// The response is invalid: reset the stream.
        case fail
        /// The response is not needed.
        case ignore
    }

    mutating func dataReceived(_ count: Int, endsStream: Bool) -> DataAction {
        switch state {
        case .awaitingHead:
            state = .ended
            return .fail
        case .ended:
            return .ignore
        case .body(let remaining):
            guard let remaining else {
                if endsStream { state = .ended }
                return endsStream ? .deliverAndEnd : .deliver
            }
            guard count <= remaining, !endsStream || count == remaining else {
                state = .ended
                return .fail
            }
            state = endsStream ? .ended : .body(remaining: remaining - count)
            return endsStream ? .deliverAndEnd : .deliver
        }
    }

    /// The response is not needed, or cannot be completed.
    mutating func end() { state = .ended }

    /// The number of fields that were removed since the last call because the upstream must not send them.
    mutating func takeRemovedFields() -> RemovedResponseFields? {
        guard !removed.isEmpty else { return nil }
        defer { removed = RemovedResponseFields() }
        return removed
    }
}
