/// Reason that a stream or a connection ends, as sent in RST_STREAM and GOAWAY (RFC 9113 §7).
public enum HTTP2ErrorCode: UInt32, Sendable, CaseIterable {
    /// No error: a graceful shutdown, or the rest of a request body is not needed.
    case noError
    case protocolError
    case internalError
    case flowControlError
    case settingsTimeout
    case streamClosed
    case frameSizeError
    /// The request was not processed and can be sent again (RFC 9113 §8.7).
    case refusedStream
    case cancel
    case compressionError
    case connectError
    /// The client causes more work than regular use does.
    case enhanceYourCalm
    case inadequateSecurity
    case http11Required
}
