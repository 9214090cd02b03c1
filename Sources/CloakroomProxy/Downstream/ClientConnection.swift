import CloakroomCore
import CloakroomTelemetry
import NIOCore

/// Properties of a client connection that are known before its first request.
struct DownstreamConnectionInfo {
    let channel: any Channel
    let context: LoopContext
    let isTLS: Bool
    /// The client's address from a PROXY header; `nil` to use the connection's remote address.
    var sourceAddress: String?
    /// `nil` without TLS.
    var tlsVersion: ExchangeTLSVersion?
    /// Subject of the client's certificate, if one was requested and verified.
    var certificateSubject: String?

    /// Creates the peer for the connection's requests. The connection must be established.
    func makePeer() -> Peer {
        Peer(
            address: sourceAddress ?? channel.remoteAddress?.ipAddress ?? "unknown", isTLS: isTLS,
            trusted: context.snapshot.config.configuration.trustedPeers, tlsVersion: tlsVersion,
            certificateSubject: certificateSubject)
    }
}
