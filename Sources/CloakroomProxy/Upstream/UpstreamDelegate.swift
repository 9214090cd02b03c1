import CloakroomCore
import CloakroomWire
import NIOCore

/// The side of an exchange that waits for an upstream connection and receives its response. Counterpart of
/// ``ResponseWriter``.
protocol UpstreamDelegate: AnyObject {
    /// The connection that was waited for is leased.
    func upstreamConnected(_ lease: any UpstreamLease)
    /// The connection that was waited for has no room for the request, which has to be leased again.
    func upstreamHasNoRoom()
    /// A target could not be connected to, and another one is tried.
    func upstreamConnectRetried()
    /// The connection that was waited for could not be established.
    /// - Parameters:
    ///   - target: Index within the upstream of the configured target that was tried last; `nil` if none was.
    ///   - duration: Duration of the attempts, in nanoseconds.
    func upstreamConnectFailed(_ failure: UpstreamFailure, target: Int?, duration: UInt64)
    /// An interim response was received (RFC 9110 §15.2).
    func upstreamInformational(_ head: borrowing ResponseHead)
    /// The response head was received; the fields to strip are marked.
    func upstreamHead(
        _ head: borrowing ResponseHead, summary: ResponseHeaderPolicy.ResponseHeaderSummary, framing: BodyFraming)
    /// Part of the response body, or of a tunnel, was received.
    func upstreamBody(_ bytes: ByteBuffer)
    /// All data of one read was delivered.
    func upstreamReadComplete()
    /// The response is complete. The connection is no longer part of the exchange.
    func upstreamEnd(trailers: TrailerSection?)
    func upstreamUpgraded(_ head: borrowing ResponseHead)
    /// The upstream closed its side of the tunnel; the client's side may continue.
    func upstreamHalfClosed()
    /// The connection of a tunnel is closed: data that the client still sends cannot be delivered.
    func upstreamClosed()
    /// The upstream returned no complete response. The connection is no longer part of the exchange.
    /// - Parameter isStale: Whether the connection was reused and closed before the first byte of a response. The
    ///   upstream may have processed the request, unless the failure is ``UpstreamFailure/Kind/refused``.
    func upstreamFailed(_ failure: UpstreamFailure, isStale: Bool)
    /// The connection is writable again.
    func upstreamWritable()
    /// How fast the client is; `nil` unless the client is waited for.
    func clientPace(now: UInt64) -> PressureRule.Lease?
    /// The connection is needed for others: the exchange ends.
    func endForOthers()
}
