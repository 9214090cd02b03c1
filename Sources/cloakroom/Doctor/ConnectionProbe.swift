import CloakroomCore
import CloakroomProxy
import CloakroomTLS
import CloakroomWire
import Foundation
import NIOCore
import NIOPosix
import NIOSSL
import SwiftASN1
import X509

/// The steps before the first call to a target: resolve, connect, TLS. Each is bounded by `timeouts.connect`.
struct ConnectionProbe {
    private static let maxAddresses = 4

    let target: UpstreamTargetConfiguration
    /// The key of the target in the configuration, such as `upstreams.api.targets`.
    let targetKey: String
    let tls: UpstreamTLSConfiguration?
    /// The key of the section for TLS.
    let tlsKey: String
    /// The keys in this section that a failure may be due to; an identity has fewer than an upstream.
    var tlsKeys: Set = ["caFile", "certificateFile", "serverName"]
    let limit: TimeAmount

    private var group: MultiThreadedEventLoopGroup { .singleton }

    /// - Returns: The steps; the last one failed, or the target can be called.
    func run() async -> [DoctorStep] {
        switch target.address {
        case .unixSocket(let path):
            return [await connect([try? SocketAddress(unixDomainSocketPath: path)].compactMap { $0 }).step]
        case .tcp(let address):
            let (resolve, addresses) = await resolve(address)
            guard resolve.outcome == .passed else { return [resolve] }
            let (connect, reached) = await connect(addresses)
            guard let reached, target.scheme == .https else { return [resolve, connect] }
            return [resolve, connect, await secure(reached, host: address.host)]
        }
    }

    // MARK: - Resolve and connect

    private func resolve(_ address: HostAndPort) async -> (DoctorStep, [SocketAddress]) {
        var step = DoctorStep("resolve \(address.host)", .passed)
        if let known = try? SocketAddress(ipAddress: address.host, port: address.port) {
            step.facts = ["an IP address"]
            return (step, [known])
        }
        let promise = group.any().makePromise(of: [SocketAddress].self)
        let timer = promise.futureResult.eventLoop.scheduleTask(in: limit) {
            promise.fail(ChannelError.connectTimeout(limit))
        }
        HostResolver.system.resolve(address.host, address.port).cascade(to: promise)
        let found = try? await promise.futureResult.get()
        timer.cancel()
        guard let found, !found.isEmpty else {
            step.fail("the name has no address", .init(targetKey, "check the host name, and the DNS of this machine"))
            return (step, [])
        }
        step.facts = [found.prefix(Self.maxAddresses).map { $0.ipAddress ?? "" }.joined(separator: ", ")]
        return (step, found)
    }

    private func connect(_ addresses: [SocketAddress]) async -> (step: DoctorStep, reached: SocketAddress?) {
        var step = DoctorStep("connect to \(target)", .passed)
        var cause = "the address is invalid"
        for address in addresses.prefix(Self.maxAddresses) {
            let clock = ContinuousClock.now
            do {
                let channel = try await ClientBootstrap(group: group).connectTimeout(limit).connect(to: address).get()
                channel.close(promise: nil)
                step.facts.append(
                    String(format: "connected in %.0f ms", (ContinuousClock.now - clock) / .milliseconds(1)))
                return (step, address)
            } catch {
                cause = Self.cause(error)
            }
        }
        step.fail(
            "no connection: \(cause)",
            .init(targetKey, "check host and port, that the server runs, and firewalls between"))
        return (step, nil)
    }

    private static func cause(_ error: any Error) -> String {
        switch error {
        case let error as IOError: SystemError.text(error.errnoCode)
        case ChannelError.connectTimeout: "the time limit passed (timeouts.connect)"
        default: "the connection was lost"
        }
    }

    // MARK: - TLS

    private func secure(_ address: SocketAddress, host: String) async -> DoctorStep {
        // The name that the identity calls verify.
        let name = tls?.serverName ?? (host.hasSuffix(".") ? String(host.dropLast()) : host)
        var step = DoctorStep("TLS with \(name)", .passed)
        let context: NIOSSLContext
        do {
            context = try UpstreamTLS.context(tls)
        } catch {
            step.fail("\(error)", .init(tlsKey, "correct the files"))
            return step
        }
        let isName = ServerNameVerifier(host: name) != nil
        let chain = await certificates(address, context, host: isName ? name : nil)
        step.facts = CertificateFacts.lines(chain)
        do {
            try await handshake(address) { try ServerNameVerifier.makeHandler(context: context, host: name) }
        } catch {
            explain(error, chain, name: name, in: &step)
        }
        return step
    }

    func explain(_ error: any Error, _ chain: [Certificate], name: String, in step: inout DoctorStep) {
        defer {
            step.changes.removeAll { change in
                change.key.hasPrefix(tlsKey + ".") && !tlsKeys.contains { change.key.hasSuffix(".\($0)") }
            }
        }
        guard let leaf = chain.first else {
            step.fail(
                "the server sent no certificate: it may not use TLS on this port, or requires a client certificate",
                .init(targetKey, "check the port, or write http:// if the server is on this machine"),
                .init(tlsKey + ".certificateFile", "write it with keyFile, if the server requires one"))
            return
        }
        let isOtherName: Bool =
            switch error {
            case is ServerNameVerifier.Mismatch: true
            case let error as NIOSSLExtraError: error == .failedToValidateHostname
            default: false
            }
        if isOtherName {
            step.fail(
                "the certificate is not issued for \(name)",
                .init(
                    tlsKey + ".serverName",
                    "write a name of the certificate, if it is the certificate of your server: "
                        + CertificateFacts.names(leaf).joined(separator: ", ")),
                .init(targetKey, "or use the host name that the certificate is issued for"))
        } else if chain.contains(where: { $0.notValidAfter < Date() }) {
            step.fail("a certificate has expired", .init(targetKey, "renew the certificate of the server"))
        } else if case ChannelError.connectTimeout = error {
            step.fail("the handshake did not end within timeouts.connect", .init(targetKey, "check the server"))
        } else {
            step.fail(
                "the handshake failed: no trusted CA issued the certificate, or a required client certificate is missing",
                .init(tlsKey + ".caFile", "write the PEM file of the CA of the server"),
                .init(tlsKey + ".certificateFile", "write it with keyFile, if the server requires one"))
        }
    }

    /// The certificates that the server presents. The handshake is aborted there, because they are not verified.
    private func certificates(_ address: SocketAddress, _ context: NIOSSLContext, host: String?) async -> [Certificate]
    {
        let presented = group.any().makePromise(of: [NIOSSLCertificate].self)
        do {
            try await handshake(address) {
                try NIOSSLClientHandler(context: context, serverHostname: host) { certificates, result in
                    presented.succeed(certificates)
                    result.succeed(NIOSSLVerificationResult.failed)
                }
            }
        } catch {}
        // Without effect if there were certificates.
        presented.fail(ChannelError.eof)
        let chain = (try? await presented.futureResult.get()) ?? []
        return chain.compactMap { certificate in
            (try? certificate.toDERBytes()).flatMap { try? Certificate(derEncoded: $0) }
        }
    }

    /// Connects and waits until the handshake ends. No data is sent.
    private func handshake(
        _ address: SocketAddress, _ makeHandler: @escaping @Sendable () throws -> NIOSSLClientHandler
    ) async throws {
        let done = group.any().makePromise(of: String?.self)
        let limit = limit
        let connecting = ClientBootstrap(group: group).connectTimeout(limit).channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                try channel.pipeline.syncOperations.addHandler(try makeHandler())
                try channel.pipeline.syncOperations.addHandler(TLSHandshakeHandler(done))
            }
        }.connect(to: address)
        connecting.whenFailure { done.fail($0) }
        let timer = done.futureResult.eventLoop.scheduleTask(in: limit) {
            done.fail(ChannelError.connectTimeout(limit))
        }
        defer {
            timer.cancel()
            connecting.whenSuccess { $0.close(mode: .all, promise: nil) }
        }
        do { _ = try await done.futureResult.get() } catch let error as TLSHandshakeError { throw error.cause }
    }
}

/// What a chain of certificates states.
enum CertificateFacts {
    private static let maxCertificates = 4
    private static let maxNames = 6

    static func lines(_ chain: [Certificate]) -> [String] {
        guard let leaf = chain.first else { return [] }
        let days = Int((leaf.notValidAfter.timeIntervalSinceNow / 86_400).rounded(.down))
        let validity = days < 0 ? "expired \(-days) days ago" : "\(days) days left"
        let issuers = chain.prefix(maxCertificates).map { "\(text("\($0.subject)")) issued by \(text("\($0.issuer)"))" }
        return ["certificate for \(names(leaf).joined(separator: ", ")), \(validity)"] + issuers.map { "chain: \($0)" }
    }

    /// The DNS names and addresses that a certificate is issued for.
    static func names(_ certificate: Certificate) -> [String] {
        let names = (try? certificate.extensions.subjectAlternativeNames).flatMap { $0 }.map { Array($0) } ?? []
        let texts = names.prefix(maxNames).compactMap { name -> String? in
            switch name {
            case .dnsName(let name): text(name)
            case .ipAddress(let octets):
                octets.bytes.count == 4 ? octets.bytes.map(String.init).joined(separator: ".") : "an IPv6 address"
            default: nil
            }
        }
        return texts.isEmpty ? ["no host name"] : texts
    }

    private static func text(_ text: String) -> String { TerminalText.clean(text, limit: 120) }
}
