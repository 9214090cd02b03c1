import CloakroomCore
import CloakroomTelemetry
import NIOCore

/// What is known of a client's connection before its first request.
struct DownstreamConnectionInfo {
    let channel: any Channel
    let context: LoopContext
    let isTLS: Bool
    /// The client's address where a PROXY header told it; `nil` for the connection's own.
    var sourceAddress: String?
    /// `nil` without TLS.
    var tlsVersion: ExchangeTLSVersion?
    /// Whom the client's certificate names, where one was asked for and verified.
    var certificateSubject: String?

    /// The peer, as requests know it. The connection has to stand.
    func makePeer() -> Peer {
        Peer(
            address: sourceAddress ?? channel.remoteAddress?.ipAddress ?? "unknown", isTLS: isTLS,
            trusted: context.snapshot.config.configuration.trustedPeers, tlsVersion: tlsVersion,
            certificateSubject: certificateSubject)
    }
}
