import CloakroomCore
import Logging
import NIOCore
import NIOSSL

/// Runtime state of a target, shared by all event loops.
final class TargetRuntime: Sendable {
    /// The endpoint to connect to.
    enum Endpoint: Sendable {
        case address(SocketAddress)
        case name(TargetResolver)
        case socket(path: String)
    }

    /// TLS settings of its connections.
    struct TLS: Sendable {
        let context: NIOSSLContext
        /// Name for SNI and verification; `nil` verifies the IP address.
        let serverName: String?
    }

    /// Name of the target for operators: `http://host:port`, `https://host:port` or `unix:/path`.
    let address: String
    let endpoint: Endpoint
    /// `nil` without TLS.
    let tls: TLS?
    let log: ConnectFailureLog
    /// Result of the last connection attempt.
    let circuit = CircuitStatus()

    /// - Parameter tls: The context shared by all `https` targets of the upstream.
    init(
        _ target: UpstreamTargetConfiguration, of upstream: UpstreamConfiguration, tls: NIOSSLContext?,
        resolver: HostResolver,
        logger: Logger
    ) {
        address = target.description
        var serverName: String?
        switch target.address {
        case .unixSocket(let path):
            endpoint = .socket(path: path)
        case .tcp(let address):
            if let known = try? SocketAddress(ipAddress: address.host, port: address.port) {
                endpoint = .address(known)
            } else {
                endpoint = .name(
                    TargetResolver(
                        host: address.host, port: address.port, interval: upstream.resolveInterval.wholeNanoseconds,
                        resolver: resolver))
                // Certificates and SNI have no trailing dot (RFC 6066 §3).
                serverName = address.host.hasSuffix(".") ? String(address.host.dropLast()) : address.host
            }
        }
        if target.scheme == .https, let tls {
            self.tls = TLS(context: tls, serverName: upstream.tls?.serverName ?? serverName)
        } else {
            self.tls = nil
        }
        var logger = logger
        logger[metadataKey: "upstream"] = "\(upstream.name)"
        logger[metadataKey: "target"] = "\(target)"
        log = ConnectFailureLog(logger)
    }

    /// A connection was established.
    func connectSucceeded() {
        circuit.succeeded()
    }

    /// A connection attempt failed. Logs the failure, at most once per 10 s, and records it for operators.
    /// - Parameters:
    ///   - now: Nanoseconds of a monotonic clock.
    ///   - time: The same time by the wall clock.
    ///   - backOffEnd: End of the back-off, by the clock of `now`.
    func failed(
        _ kind: UpstreamFailure.Kind, _ error: any Error, now: UInt64, time: Timestamp, backOffEnd: UInt64
    ) {
        // The addresses of the host may have changed.
        if case .name(let addresses) = endpoint { addresses.markSuspect() }
        log.failed(kind, error, now: now)
        circuit.failed(kind, error, at: time, backOffEnd: backOffEnd)
    }
}
