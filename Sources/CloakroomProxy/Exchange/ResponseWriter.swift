import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// The client side of an exchange, independent of the HTTP version.
protocol ResponseWriter: AnyObject {
    /// Writes the head of the upstream's response; the fields to strip are marked already.
    func writeHead(_ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions)
    /// Writes 100 (Continue), which asks the client to send its body (RFC 9110 §15.2.1).
    func writeContinue()
    /// Forwards an interim response (RFC 9110 §15.2).
    func writeInformational(_ head: borrowing ResponseHead)
    /// Writes part of the response body.
    func writeBody(_ bytes: ByteBuffer)
    /// Ends the response, or the gateway's side of a tunnel.
    /// - Parameter trailers: Complete field lines of the trailer section, if the client's protocol supports one.
    func writeEnd(trailers: ByteBuffer?)
    /// Writes the response that accepts an upgrade: all further body bytes belong to the tunnel, in both directions.
    /// - Parameter fieldLines: Complete field lines to add.
    func writeUpgradeResponse(_ head: borrowing ResponseHead, fieldLines: [UInt8])
    /// Writes a complete local response.
    func writeLocalResponse(_ response: LocalResponse)
    /// Sends the data written so far.
    func flush()
    /// Whether more can be written at the moment.
    var isWritable: Bool { get }
    /// Bytes written that the client has not accepted.
    /// - Parameter isExact: Whether to include what the system has taken over and the client has not acknowledged, which
    ///   may cost a system call.
    func unacceptedBytes(isExact: Bool) -> Int
    /// The body bytes that the exchange had buffered are forwarded or dropped.
    func bufferedBodySent()
    /// Resumes a request body that was held back.
    func resumeRequestBody()
    /// Whether all of the response that was written has been passed to the connection.
    var isResponseSent: Bool { get }
    /// Discards what has been written of the upstream's response.
    /// - Returns: Whether that was possible, because none of it has been sent.
    func discardUnsentResponse() -> Bool
    /// Closes the connection or resets the stream without completing the response.
    func abort()
    /// The exchange has ended and its response is written.
    func exchangeCompleted()
    /// Sets the time at which ``Exchange/deadlineExpired(now:)`` is called.
    func setDeadline(_ deadline: UInt64)
    /// Limits the present deadline, and all further ones of this request.
    func limitDeadlines(to limit: UInt64)
}

/// Fields added to a forwarded response.
struct ResponseAdditions {
    /// Value of `Date`; `nil` if the upstream sent one.
    var date: [UInt8]?
    /// Whether to forbid storage in shared caches, because the response depends on a session.
    var isPrivate = false
    /// Whether to state that the response varies by cookie.
    var variesByCookie = false
    /// Further complete field lines; `nil` for none.
    var fieldLines: [UInt8]?

    /// Adds field lines. Without others they are not copied.
    mutating func append(_ lines: [UInt8]) { if fieldLines == nil { fieldLines = lines } else { fieldLines? += lines } }
}

/// A local response: made by the gateway itself.
struct LocalResponse {
    var status: Int
    var title: String
    /// Complete field lines with line ends, without `Content-Length`, `Date` and `Connection`.
    var fieldLines: [UInt8]
    var body: [UInt8]
    var date: [UInt8]
    /// The number of bytes of the body that are written after the response.
    var followingLength = 0

    /// The value of `Content-Length`; `nil` for none (RFC 9110 §8.6).
    var contentLength: Int? { status == 204 || status == 304 ? nil : body.count + followingLength }
}

extension LocalResponse {
    /// A problem document.
    /// - Parameters:
    ///   - allow: Value of `Allow`; `nil` for none.
    ///   - moreFieldLines: Complete field lines to add.
    ///   - contentLines: Complete field lines of the content, with `Cache-Control`.
    ///   - page: The body; `nil` for the document.
    init(
        _ document: ProblemDocument, requestID: ID128, allow: String?, moreFieldLines: [UInt8], date: [UInt8],
        contentLines: [UInt8] = Self.documentLines, page: [UInt8]? = nil
    ) {
        var lines = moreFieldLines
        lines += contentLines
        // A step-up has a challenge of its own (RFC 9470 §3).
        if document.problem.status == 401, document.problem.code != .stepUp { lines += Self.challengeLine }
        if let retryAfter = document.problem.retryAfter { lines += Array("Retry-After: \(retryAfter)\r\n".utf8) }
        if let allow { lines += Array("Allow: \(allow)\r\n".utf8) }
        self.init(
            status: document.problem.status, title: document.problem.title, fieldLines: lines,
            body: page ?? Self.body(document, requestID), date: date)
    }

    private static func body(_ document: ProblemDocument, _ requestID: ID128) -> [UInt8] {
        var body = document.prefix
        body.reserveCapacity(body.count + 32 + document.suffix.count)
        body.append(contentsOf: requestID.description.utf8)
        body += document.suffix
        return body
    }

    /// `Content-Type` of a problem document, which no cache may store.
    static let documentLines = Array("Content-Type: application/problem+json\r\nCache-Control: no-store\r\n".utf8)

    /// An authentication scheme that browsers do not know, so they open no credentials dialog (RFC 9110 §11.6.1).
    private static let challengeLine = Array("WWW-Authenticate: Session realm=\"cloakroom\"\r\n".utf8)
}
