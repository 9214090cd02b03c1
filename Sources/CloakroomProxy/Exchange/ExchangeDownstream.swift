import CloakroomCore
import CloakroomWire
import NIOCore

/// The client's side of an exchange: whatever protocol the client speaks, the exchange asks for the same things.
protocol ResponseWriter: AnyObject {
    /// Writes the head of the upstream's answer; its fields are marked already.
    func writeHead(_ head: borrowing ResponseHead, framing: BodyFraming, additions: ResponseAdditions)
    /// Tells the client to send its body (RFC 9110 §15.2.1).
    func writeContinue()
    /// Passes on an interim answer (RFC 9110 §15.2).
    func writeInformational(_ head: borrowing ResponseHead)
    /// Writes some of the answer's body.
    func writeBody(_ bytes: ByteBuffer)
    /// The answer is complete, or our side of a tunnel is.
    /// - Parameter trailers: Whole field lines that go behind the body, where the client's protocol has a place for them.
    func writeEnd(trailers: ByteBuffer?)
    /// The upstream changed the protocol: from here on, bytes of the body are those of a tunnel, in both directions.
    func writeUpgradeResponse(_ head: borrowing ResponseHead)
    /// Writes an answer of the gateway's own, whole.
    func writeLocalResponse(_ response: LocalResponse)
    /// Sends what has been written.
    func flush()
    /// Whether the client takes more at the moment.
    var isWritable: Bool { get }
    /// Held-back body may go on.
    func resumeRequestBody()
    /// Takes back what has been written of the upstream's answer.
    /// - Returns: Whether that was possible, because nothing of it has been sent.
    func discardUnsentResponse() -> Bool
    /// Nothing can be done any more but break off.
    func abort()
    /// The exchange is over, and its answer is written.
    func exchangeCompleted()
    /// When ``Exchange/deadlineExpired(now:)`` is to be called.
    func setDeadline(_ deadline: UInt64)
}

/// What goes into a forwarded answer besides the upstream's own fields.
struct ResponseAdditions {
    /// The value for `Date`; `nil` if the upstream sent one.
    var date: [UInt8]?
    /// Whether shared caches have to be kept off, because a session chose the answer.
    var isPrivate = false
    /// Whether to say that the answer depends on the cookie.
    var variesByCookie = false
    /// Whole field lines about other origins; `nil` for none.
    var crossOriginLines: [UInt8]?
}

/// An answer of the gateway's own.
struct LocalResponse {
    var status: Int
    var title: String
    /// Whole field lines, with their line ends, without `Content-Length`, `Date` and `Connection`.
    var fieldLines: [UInt8]
    var body: [UInt8]
    var date: [UInt8]
}
