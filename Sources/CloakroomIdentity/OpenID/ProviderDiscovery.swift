import CloakroomCore
import Synchronization

/// Fetches what a provider publishes: its metadata (OpenID Connect Discovery §4), and then the keys that they name.
///
/// Both are fetched one after the other at the times of ``ProviderKeys``, so one schedule, one back-off and one time limit
/// bound the load on the provider.
final class ProviderDiscovery: Sendable {
    private let configuration: IdentityConfiguration
    private let transport: ProviderTransport
    private let timeout: Duration
    private let report: @Sendable (ProviderEvent) -> Void
    private let current: Mutex<ProviderMetadata?>

    /// - Parameter previous: Metadata of the same issuer, which are used until the first fetch succeeds; `nil` for
    ///   none.
    init(
        _ configuration: IdentityConfiguration, previous: ProviderMetadata? = nil, transport: ProviderTransport,
        timeout: Duration,
        report: @escaping @Sendable (ProviderEvent) -> Void
    ) {
        self.configuration = configuration
        self.transport = transport
        // A refresh may wait for keys after its call, and the lease on the session lasts five seconds longer than the call.
        self.timeout = min(timeout, .seconds(5))
        self.report = report
        current = Mutex(ProviderMetadata(configured: configuration) ?? previous)
    }

    /// The metadata that were fetched last; `nil` before the first.
    var metadata: ProviderMetadata? { current.withLock { $0 } }

    private struct Failure: Error {}

    /// Fetches the metadata and the keys, within the time limit of one call and five seconds.
    ///
    /// If the metadata cannot be fetched or are rejected, the keys are fetched from where the earlier ones are.
    /// - Throws: If there is no key set.
    func fetch() async throws -> ProviderKeys.Response {
        let deadline = ContinuousClock.now + timeout
        let fetched = await fetchMetadata()
        guard let metadata = metadata else { throw Failure() }
        let remaining = deadline - .now
        guard remaining > .zero else { throw Failure() }
        let keys = try await get(metadata.keys, call: .keys, timeout: remaining)
        // The lifetime of both is the shorter one.
        let lifetime = min(fetched, KeySetSchedule.lifetime(cacheControl: keys.cacheControl))
        return ProviderKeys.Response(document: keys.body, lifetime: lifetime)
    }

    /// - Returns: The lifetime of the metadata; the usual one if earlier ones remain in use.
    private func fetchMetadata() async -> Duration {
        if let configured = ProviderMetadata(configured: configuration) {
            report(.metadata(configured.findings(for: configuration)))
            return KeySetSchedule.usualLifetime
        }
        guard let url = EndpointURL(ProviderMetadata.url(ofIssuer: configuration.issuer)),
            let response = try? await get(url, call: .discovery, timeout: timeout)
        else {
            report(.metadataUnavailable)
            return KeySetSchedule.usualLifetime
        }
        do throws(ProviderMetadata.ParseError) {
            let metadata = try ProviderMetadata(
                response.body, issuer: configuration.issuer, endpoints: configuration.endpoints)
            current.withLock { $0 = metadata }
            await transport.keep(Set(metadata.origins + [url.origin]))
            report(.metadata(metadata.findings(for: configuration)))
            return KeySetSchedule.lifetime(cacheControl: response.cacheControl)
        } catch {
            report(.metadataRejected(error))
            return KeySetSchedule.usualLifetime
        }
    }

    /// - Throws: Unless the status is 200 (OpenID Connect Discovery §4.2).
    private func get(
        _ url: EndpointURL, call: TokenClientError.Operation, timeout: Duration
    ) async throws -> IdentityTransport.Response {
        let response = try await transport.send("GET", url, call: call, traceparent: nil, timeout: timeout)
        guard response.status == 200 else { throw Failure() }
        return response
    }
}

extension ProviderMetadata {
    /// The origins of the endpoints that the gateway calls.
    fileprivate var origins: [WebOrigin] {
        [tokenEndpoint, keys, userInfoEndpoint, revocationEndpoint, introspectionEndpoint, pushedRequestEndpoint]
            .compactMap { $0?.origin }
    }
}
