import CloakroomCore
import CloakroomIdentity
import CloakroomProxy
import CloakroomTLS
import Foundation
import Logging
import NIOCore
import NIOPosix

/// The identity calls of an upstream, made as a running gateway makes them: sign-in, user, refresh, revocation.
struct SignInDiagnosis {
    let upstream: UpstreamConfiguration
    let timeouts: TimeoutsConfiguration

    private var key: String { "upstreams.\(upstream.name)" }

    /// - Parameter credentials: `nil` if they are missing; then only connections are checked.
    /// - Throws: `UpstreamTLSError` if a file for TLS is invalid.
    func run(_ credentials: Credentials?) async throws -> [DoctorStep] {
        var steps: [DoctorStep] = []
        var isReachable = false
        for target in upstream.targets.prefix(8) {
            let probe = ConnectionProbe(
                target: target, targetKey: key + ".targets", tls: upstream.tls, tlsKey: key + ".tls",
                limit: TimeAmount(timeouts.connect))
            let found = await probe.run()
            isReachable = isReachable || found.allSatisfy { $0.outcome == .passed }
            steps += found
        }
        guard isReachable else { return steps + upstream.skippedCalls("no target can be reached") }
        guard let credentials else {
            return steps
                + upstream.skippedCalls("no user: write --user NAME, and --password-file FILE without a terminal")
        }
        let session = try SignInSession(upstream, timeouts: timeouts, credentials: credentials)
        steps += await session.run()
        await session.shutdown()
        return steps
    }
}

extension UpstreamConfiguration {
    /// The identity calls as steps that were not made. Those that are not configured are no failures.
    fileprivate func skippedCalls(_ reason: String) -> [DoctorStep] {
        [("sign-in", signIn != nil), ("user", user != nil), ("refresh", refresh != nil), ("revoke", revoke != nil)]
            .map { $1 ? .skipped($0, reason) : DoctorStep($0, .notConfigured) }
    }
}

/// One user's way through the identity calls.
private final class SignInSession {
    private let upstream: UpstreamConfiguration
    private let credentials: Credentials
    private let key: String
    /// Without the user call, which would revoke the tokens if it failed.
    private let signInClient: UpstreamTokenClient
    private let client: UpstreamTokenClient
    private var redaction: DoctorRedaction

    init(_ upstream: UpstreamConfiguration, timeouts: TimeoutsConfiguration, credentials: Credentials) throws {
        self.upstream = upstream
        self.credentials = credentials
        key = "upstreams.\(upstream.name)"
        let targets = try UpstreamTargets(
            upstream, timeouts: timeouts, logger: Logger(label: "doctor") { _ in SwiftLogNoOpLogHandler() })
        let tls = try UpstreamTLS.configuration(upstream.tls)
        func makeClient(_ upstream: UpstreamConfiguration) -> UpstreamTokenClient {
            UpstreamTokenClient(
                upstream, targets: targets, timeouts: timeouts, eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                tls: tls)
        }
        var withoutUser = upstream
        withoutUser.user = nil
        signInClient = makeClient(withoutUser)
        client = makeClient(upstream)
        let clients = [upstream.signIn, upstream.refresh, upstream.revoke].compactMap { $0?.client?.secret }
        let basic = Secret(bytes: Array(credentials.name.utf8) + [UInt8(ascii: ":")] + credentials.password.bytes)
        redaction = DoctorRedaction(
            [credentials.password, basic] + [upstream.apiToken?.value].compactMap { $0 } + clients)
    }

    func shutdown() async {
        await signInClient.shutdown()
        await client.shutdown()
    }

    func run() async -> [DoctorStep] {
        var (step, issued, document) = await signIn()
        if upstream.refresh != nil || upstream.revoke != nil, issued?.refreshToken == nil, let signIn = upstream.signIn
        {
            let found = candidates(.refreshToken, in: document).filter { $0 != signIn.refreshToken }
            // Also without an access token: one further sign-in then shows all names.
            if issued != nil || !found.isEmpty {
                step.fail(
                    step.problem ?? "the response has no refresh token, and refresh or revoke is configured",
                    .init(
                        key + ".signIn.refreshToken",
                        "\(signIn.refreshToken) is configured; write the path of the refresh token", values: found))
            }
        }
        guard var tokens = issued else {
            return [step] + upstream.skippedCalls("there are no tokens").dropFirst()
        }
        add(tokens)
        var steps = [step, await user(tokens)]
        let refresh = await refresh(&tokens)
        steps.append(refresh)
        steps.append(await revoke(tokens))
        return steps
    }

    private func add(_ tokens: TokenSet) {
        redaction.add(tokens.authorization)
        if let token = tokens.refreshToken { redaction.add(token) }
    }

    // MARK: - Calls

    private func signIn() async -> (DoctorStep, TokenSet?, JSONValue?) {
        guard let configuration = upstream.signIn else { return (DoctorStep("sign-in", .notConfigured), nil, nil) }
        var (step, tokens, call) = await attempt("sign-in") {
            [signInClient, credentials] () throws(TokenClientError) in
            try await signInClient.signIn(credentials, traceparent: nil, now: .now).tokens
        }
        addLookups(configuration, "signIn", call, to: &step)
        let document = call?.response.flatMap { (200...299).contains($0.status) ? JSONValue(document: $0.body) : nil }
        if let tokens, tokens.accessTokenExpiresAt == nil {
            let found = candidates(.lifetime, in: document)
            if !found.isEmpty {
                step.changes.append(
                    .init(
                        key + ".signIn.expiresIn", "the lifetime is unknown; write its path, in seconds", values: found)
                )
            }
        }
        return (step, tokens, document)
    }

    /// The members that probably have a value.
    private func candidates(_ member: UsualMember, in document: JSONValue?) -> [String] {
        guard let document, !redaction.isIncomplete else { return [] }
        return member.candidates(in: document, redaction)
    }

    private func user(_ tokens: TokenSet) async -> DoctorStep {
        guard let configuration = upstream.user else { return DoctorStep("user", .notConfigured) }
        var (step, _, call) = await attempt("user") { [client] () throws(TokenClientError) in
            try await client.user(tokens, replacing: nil, traceparent: nil)
        }
        if step.outcome == .passed, let body = call?.response?.body, let document = JSONValue(document: body) {
            let isFound = document[path: configuration.userID] != nil
            step.lookups.append(
                .init(
                    setting: key + ".user.id", path: configuration.userID,
                    result: isFound ? "found" : "missing: the name at sign-in identifies the account"))
            let found = isFound ? [] : candidates(.userID, in: document)
            if !found.isEmpty {
                step.changes.append(.init(key + ".user.id", "write the path of the user's id", values: found))
            }
        }
        return step
    }

    private func refresh(_ tokens: inout TokenSet) async -> DoctorStep {
        guard let configuration = upstream.refresh else { return DoctorStep("refresh", .notConfigured) }
        guard tokens.refreshToken != nil else { return .skipped("refresh", "there is no refresh token") }
        let current = tokens
        var (step, refreshed, call) = await attempt("refresh") { [client] () throws(TokenClientError) in
            try await client.refresh(current, traceparent: nil, now: .now)
        }
        addLookups(configuration, "refresh", call, to: &step)
        if let refreshed {
            add(refreshed)
            tokens = refreshed
        }
        return step
    }

    private func revoke(_ tokens: TokenSet) async -> DoctorStep {
        guard let configuration = upstream.revoke else { return DoctorStep("revoke", .notConfigured) }
        guard tokens.refreshToken != nil else { return .skipped("revoke", "there is no refresh token") }
        var (step, _, call) = await attempt("revoke") { [client] () throws(TokenClientError) in
            try await client.revoke(tokens, traceparent: nil)
        }
        if step.outcome == .passed, call?.response?.status == 401 {
            // A running gateway accepts this status: the token may be invalid already.
            step.fail(
                "the upstream rejects the token that it issued, with 401",
                .init(
                    key + ".revoke.credentials",
                    "\(configuration.credentials.rawValue) is configured; check where the token is expected"))
        }
        return step
    }

    /// Makes a call.
    /// - Returns: The step, which has failed with an explanation if the call has; the result; and the last attempt.
    private func attempt<R: Sendable>(
        _ name: String, _ body: @Sendable () async throws(TokenClientError) -> R
    ) async -> (step: DoctorStep, result: R?, call: IdentityCallObservation?) {
        let calls = ObservedCalls()
        let result = await ObservedCalls.$current.withValue(calls) { await Result(of: body) }
        var step = describe(name, calls.all)
        if case .failure(let error) = result {
            SignInAdvice(upstream: upstream, redaction: redaction).explain(error, calls.all.last, in: &step)
        }
        return (step, try? result.get(), calls.all.last)
    }

    // MARK: - Description

    private func describe(_ name: String, _ calls: [IdentityCallObservation]) -> DoctorStep {
        var step = DoctorStep(name, .passed)
        if let body = calls.last?.response?.body, let document = JSONValue(document: body) {
            if name != "user" { redaction.addTexts(of: document) }
            if redaction.isIncomplete {
                step.facts.append(
                    "keys are not printed: the responses have more than \(DoctorRedaction.maxSecrets) texts, each of which"
                        + " may be a secret")
            } else if case .object = document {
                step.keys = redaction.names(in: document)
            }
        }
        step.calls = calls.suffix(4).map(redaction.call)
        return step
    }

    /// Adds the keys of tokens, as far as there is a JSON object.
    private func addLookups(
        _ configuration: IdentityEndpointConfiguration, _ section: String, _ call: IdentityCallObservation?,
        to step: inout DoctorStep
    ) {
        guard let response = call?.response, (200...299).contains(response.status),
            let document = JSONValue(document: response.body)
        else { return }
        var paths = [("accessToken", configuration.accessToken), ("refreshToken", configuration.refreshToken)]
        if let expiresIn = configuration.expiresIn { paths.append(("expiresIn", expiresIn)) }
        for (name, path) in paths {
            let result =
                switch document[path: path] {
                case nil: "missing"
                case .string(let text) where text.isEmpty: "empty"
                case .string: "found"
                case .number: name == "expiresIn" ? "found" : "a number, not a string"
                case .bool, .array, .object, .null: "not a string"
                }
            step.lookups.append(.init(setting: "\(key).\(section).\(name)", path: path, result: result))
        }
    }
}
