import CloakroomCore
import CloakroomIdentity
import CloakroomWire
import NIOCore
import NIOPosix
import Synchronization

/// What can be checked of an OpenID Provider without a browser: the connection, its metadata, its keys, the differences
/// between the metadata and the configuration, and the authentication of the client.
struct ProviderDiagnosis {
    let identity: IdentityConfiguration
    let timeouts: TimeoutsConfiguration

    private var key: String { "identities.\(identity.name)" }
    private var isFetched: Bool { identity.endpoints.fixed == nil }

    /// - Throws: If a file of the identity is invalid.
    func run() async throws -> [DoctorStep] {
        var steps: [DoctorStep] = []
        let base = identity.endpoints.base
        if let origin = base ?? (identity.endpoints.fixed?.token ?? EndpointURL(identity.issuer))?.origin {
            steps = await ConnectionProbe(
                target: UpstreamTargetConfiguration(origin),
                targetKey: key + (base != nil ? ".endpoints.base" : isFetched ? ".issuer" : ".endpoints.token"),
                tls: identity.caFile.map { UpstreamTLSConfiguration(caFile: $0) },
                tlsKey: key + ".tls", tlsKeys: ["caFile"], limit: TimeAmount(timeouts.connect)
            ).run()
        }
        guard steps.allSatisfy({ $0.outcome == .passed }) else {
            return steps + ["metadata", "keys", "client"].map { .skipped($0, "the provider cannot be reached") }
        }
        let calls = ObservedCalls()
        let recorder = EventRecorder()
        let provider = try OpenIDProvider(
            identity, timeouts: timeouts, eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            clock: { .now }, report: { recorder.append($0) })
        await ObservedCalls.$current.withValue(calls) {
            // The events have the reason of a failure.
            try? await provider.prepare(from: "localhost")
        }
        let client = await client(of: provider)
        await provider.shutdown()
        return steps + describe(recorder.all, calls.all) + [client]
    }

    /// Tries the authentication of the client.
    private func client(of provider: OpenIDProvider) async -> DoctorStep {
        guard await provider.status().hasMetadata else { return .skipped("client", "there are no metadata") }
        let calls = ObservedCalls()
        await ObservedCalls.$current.withValue(calls) {
            // The call has the reason of a failure.
            try? await provider.probeClient()
        }
        var step = DoctorStep("client", .passed)
        let redaction = DoctorRedaction(secrets)
        step.calls = calls.all.suffix(1).map(redaction.call)
        guard let response = calls.all.last?.response else {
            step.fail(
                "the token endpoint does not respond",
                .init(key + (isFetched ? ".endpoints.base" : ".endpoints.token"), "check the way to the token endpoint")
            )
            return step
        }
        let code: String? =
            if case .string(let text)? = JSONValue(document: response.body)?[path: "error"] { text } else { nil }
        if let code { step.facts.append("error code \(redaction.code(code))") }
        if code == "invalid_grant" {
            step.facts.append(
                "the client is probably accepted: the provider rejects the token, which it has not issued")
        } else if code == "invalid_client" || response.status == 401 {
            reject(&step)
        } else {
            step.outcome = .undecided
            step.problem = "the response does not show whether the client is accepted: try a sign-in"
        }
        return step
    }

    private func reject(_ step: inout DoctorStep) {
        let (id, method) = (identity.client.id, identity.client.authentication.name)
        let (file, advice) =
            secrets.isEmpty
            ? ("key", "register its public key, and check the audience")
            : ("secret", "write the secret of the registration; it may have expired")
        step.fail(
            "the provider rejects the client: a wrong \(file) or id, or another method of authentication is registered",
            .init("\(key).client.\(file)File", advice),
            .init(key + ".client.id", "\(id) is configured; compare it with the registration"),
            .init(key + ".client.authentication", "\(method) is configured; check which one the registration permits"))
    }

    /// The secret of the client; none for a private key.
    private var secrets: [Secret] {
        switch identity.client.authentication {
        case .basic(let secret), .post(let secret): [secret]
        case .privateKey: []
        }
    }

    private func describe(_ events: [ProviderEvent], _ calls: [IdentityCallObservation]) -> [DoctorStep] {
        let redaction = DoctorRedaction(secrets)
        var metadata = DoctorStep("metadata", .passed)
        var keys = DoctorStep("keys", .passed)
        let isMetadata = { (call: IdentityCallObservation) in call.url.hasSuffix("/.well-known/openid-configuration") }
        metadata.calls = calls.filter(isMetadata).suffix(2).map(redaction.call)
        keys.calls = calls.filter { !isMetadata($0) }.suffix(2).map(redaction.call)
        if let body = calls.last(where: isMetadata)?.response?.body, let document = JSONValue(document: body),
            case .object = document
        {
            metadata.keys = redaction.names(in: document)
        }
        if !isFetched { metadata.facts = ["not fetched, by endpoints.metadata"] }
        var hasKeys = false
        for event in events {
            switch event {
            case .metadata(let findings):
                for finding in findings { metadata.fail(finding.message, .init(key, finding.remedy)) }
            case .metadataUnavailable:
                metadata.fail(
                    "the metadata cannot be fetched with status 200",
                    .init(key + ".issuer", "\(identity.issuer) is configured; check its path"))
            case .metadataRejected(let error):
                let isElsewhere = if case .origin = error { true } else { false }
                let advice = (isElsewhere ? "" : "\(identity.issuer) is configured; ") + error.finding.remedy
                metadata.fail(
                    error.finding.message, .init(key + (isElsewhere ? ".endpoints.base" : ".issuer"), advice))
            case .keys(.replaced(let usable, let skipped)):
                hasKeys = usable > 0
                keys.facts = ["\(usable) usable, \(skipped) skipped"]
            case .keys(.invalid), .keys(.failed), .rejected, .accessToken, .invalidLifetime: break
            }
        }
        if !metadata.outcome.isPass, !hasKeys {
            return [metadata, .skipped("keys", "there are no metadata")]
        }
        if !hasKeys {
            keys.fail(
                "the provider publishes no key for the configured algorithms, or the key set cannot be fetched",
                .init(
                    key + ".algorithms",
                    "check them, and \(isFetched ? "jwks_uri in the metadata" : "endpoints.keys")"))
        }
        return [metadata, keys]
    }
}

/// Collects the events of a provider.
private final class EventRecorder: Sendable {
    private let events = Mutex<[ProviderEvent]>([])

    var all: [ProviderEvent] { events.withLock { $0 } }

    func append(_ event: ProviderEvent) {
        events.withLock { if $0.count < 32 { $0.append(event) } }
    }
}
