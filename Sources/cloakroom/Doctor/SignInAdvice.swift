import CloakroomCore
import CloakroomIdentity
import Foundation

/// Explains why an identity call of an upstream failed, and which keys of the configuration to change.
struct SignInAdvice {
    let upstream: UpstreamConfiguration
    let redaction: DoctorRedaction
    /// How much of an error response is searched for names, in bytes.
    private static let maxErrorText = 4_096

    func explain(_ error: TokenClientError, _ observed: IdentityCallObservation?, in step: inout DoctorStep) {
        let section = Section(error.call, upstream)
        let status = observed?.response?.status
        addCode(observed, to: &step)
        if error.call == .signIn, (400...499).contains(status ?? 0) { addNames(observed, section, to: &step) }
        switch error.kind {
        case .rejected where error.call == .signIn:
            rejectedSignIn(observed, section, in: &step)
        case .rejected:
            if let members = section.configuration?.members, section.hasMembers {
                step.changes.append(
                    .init(
                        section.key + ".members.refreshToken",
                        "write the key under which the API expects the token; \(members.refreshToken) is configured"))
            }
            step.fail(
                "the upstream rejects the refresh token that it issued",
                .init(
                    section.key + ".credentials", "\(section.format) is configured; check where the token is expected"),
                .init("upstreams.\(upstream.name).signIn.refreshToken", "check that it is the refresh token"))
        case .unreachable where status != nil:
            step.fail(
                "the upstream failed with status \(status ?? 0)",
                .init(section.key, "check its log, and method, path and credentials of the call"))
        case .unreachable:
            step.fail("the connection was lost", .init(targets, "check the API, and protocol of the port"))
        case .timedOut:
            step.fail(
                "there was no complete response within the time limit",
                .init("timeouts.identity", "raise it if the API needs longer"))
        case .busy:
            step.fail(
                "the upstream requests a later attempt, with status \(status ?? 0)",
                .init(section.key, "try again later, or raise the limit at the API"))
        case .misconfigured(let reason):
            // The hints of the other calls are for providers.
            let call: TokenClientError.Operation = error.call == .refresh ? .refresh : .signIn
            step.fail("the upstream rejects the request: \(reason.hint(in: call))")
            addChanges(reason, section, to: &step)
        case .failed, .denied: invalidResponse(error.call, observed, section, in: &step)
        }
    }

    private var targets: String { "upstreams.\(upstream.name).targets" }

    private var apiToken: DoctorStep.Change {
        if let token = upstream.apiToken {
            return .init("upstreams.\(upstream.name).apiToken", "check the token in the field \(token.header)")
        }
        return .init("upstreams.\(upstream.name).apiToken.valueFile", "write it if the API requires an API token")
    }

    /// Schemes of other credentials than a token.
    private static let otherSchemes: Set = ["basic", "digest", "negotiate", "ntlm"]

    /// The field of the access token, with the scheme that the upstream asks for.
    private func scheme(_ challenge: String?) -> DoctorStep.Change {
        let (key, bearer) = ("upstreams.\(upstream.name).bearer", upstream.bearer)
        guard let challenge, challenge.lowercased() != bearer.scheme.lowercased(),
            !Self.otherSchemes.contains(challenge.lowercased())
        else {
            return .init(
                key + ".header", "\(bearer.header) is configured; check the field and the scheme that the API expects")
        }
        let name = redaction.name(challenge)
        var change = DoctorStep.Change(
            key + ".scheme", "write \(name), which the API asks for; \(bearer.scheme) is configured")
        if name == challenge { change.values = [name] }
        return change
    }

    /// The code in an error response (RFC 6749 §5.2).
    private func addCode(_ call: IdentityCallObservation?, to step: inout DoctorStep) {
        guard let response = call?.response, response.status >= 400,
            case .string(let code)? = JSONValue(document: response.body)?[path: upstream.signIn?.errorCode ?? "error"]
        else { return }
        step.facts.append("error code \(redaction.code(code))")
    }

    /// The names that an error response has, and that the request does not have: of the field of an API token, and of
    /// members of the body.
    private func addNames(_ call: IdentityCallObservation?, _ section: Section, to step: inout DoctorStep) {
        guard let response = call?.response, let configuration = section.configuration else { return }
        let text = String(decoding: response.body.prefix(Self.maxErrorText), as: UTF8.self)
        var names: [(UsualMember, key: String, configured: String?)] = [
            (.apiTokenField, "upstreams.\(upstream.name).apiToken.header", upstream.apiToken?.header)
        ]
        if [400, 415, 422].contains(response.status), configuration.credentials != .oauth {
            let members = section.hasMembers ? configuration.members : nil
            names += [
                (.name, section.key + ".members.name", members?.name),
                (.password, section.key + ".members.password", members?.password),
            ]
        }
        for (member, key, configured) in names {
            guard let word = member.word(in: text, otherThan: configured, redaction) else { continue }
            let current = configured.map { "\($0) is configured; " } ?? ""
            step.changes.append(.init(key, current + "write the name in the response", values: [word]))
        }
    }

    private func rejectedSignIn(
        _ observed: IdentityCallObservation?, _ section: Section, in step: inout DoctorStep
    ) {
        let status = observed?.response?.status
        let format = DoctorStep.Change(
            section.key + ".credentials",
            "\(section.format) is configured; check which of basic, json, form and oauth the API expects")
        switch status {
        case 403:
            step.fail(
                "status 403: a wrong password, a locked account, or a wrong or missing API token. 403 is among the default"
                    + " rejectedStatuses of signIn, so the gateway reports each as a wrong password", apiToken,
                .init(
                    section.key + ".rejectedStatuses",
                    "write [400, 401, 422], if the API never rejects a password with 403: then 403 is 502"))
        case 401:
            step.fail(
                "status 401: the name or the password is wrong, or sent in another format than expected", format,
                .init(section.key + ".path", "\(section.path) is configured"))
        case 400, 422:
            step.fail(
                "status \(status ?? 0): the API does not accept the request as a sign-in", format,
                .init(section.key + ".members", "check the names of the keys, for json and form"))
        default:
            if let success = section.configuration?.success {
                step.changes.append(
                    .init(
                        section.key + ".success",
                        "\(success.path)=\(success.value) is configured; write the key, and the value after =, that each"
                            + " success has"))
            }
            if let path = section.configuration?.accessToken,
                case .string? = JSONValue(document: observed?.response?.body ?? [])?[path: path]
            {
                return step.fail("the response has an access token, but not the sign of success")
            }
            step.fail("the response means wrong credentials (success, rejectedStatuses)", format)
        }
        if section.hasMembers, status != 400, status != 422 {
            step.changes.append(
                .init(section.key + ".members", "check the names of the keys, which the API may not expect"))
        }
    }

    private func addChanges(_ reason: IdentityMisconfiguration, _ section: Section, to step: inout DoctorStep) {
        switch reason {
        case .notFound: step.changes.append(.init(section.key + ".path", "\(section.path) is configured"))
        case .forbidden: step.changes.append(apiToken)
        case .invalidClient, .unauthorizedClient:
            step.changes.append(.init("upstreams.\(upstream.name).client", "check id, secret and authentication"))
        case .unsupportedGrantType, .invalidScope, .invalidRequest, .requestRejected:
            step.changes += [
                .init(section.key + ".method", "\(section.method) is configured"),
                .init(section.key + ".path", "\(section.path) is configured"),
                .init(section.key + ".credentials", "\(section.format) is configured"),
            ]
        }
    }

    // MARK: - Invalid responses

    private func invalidResponse(
        _ operation: TokenClientError.Operation, _ call: IdentityCallObservation?, _ section: Section,
        in step: inout DoctorStep
    ) {
        let path = DoctorStep.Change(section.key + ".path", "\(section.path) is configured")
        guard let response = call?.response else {
            return step.fail("the response is not valid HTTP", .init(targets, "check scheme and port"))
        }
        if (300...399).contains(response.status) {
            return step.fail("the response is a redirect, which is not followed", path)
        }
        guard (200...299).contains(response.status) else {
            if operation == .user, response.status == 401 {
                return step.fail(
                    "the upstream rejects the access token that it issued",
                    .init(
                        "upstreams.\(upstream.name).signIn.accessToken",
                        "check that it is the path of the access token, not of another one"),
                    scheme(response.challenge), path)
            }
            return step.fail("the status has no meaning for this call", path)
        }
        if call?.failure != nil {
            return step.fail("the response is larger than 65536 bytes, or incomplete", path)
        }
        guard let document = JSONValue(document: response.body), case .object = document else {
            return step.fail("the response is not a JSON object with distinct keys", path)
        }
        guard operation != .user else {
            return step.fail(
                "the document is larger than 16384 bytes, or contains a token, and clients must not receive tokens",
                path)
        }
        missingToken(document, section, in: &step)
    }

    /// The key of the refresh token, if the response has none there: an API with an odd name often has two.
    private func addRefreshToken(
        _ document: JSONValue, _ configuration: IdentityEndpointConfiguration, _ section: Section,
        to step: inout DoctorStep
    ) {
        if case .string? = document[path: configuration.refreshToken] { return }
        step.changes.append(
            .init(
                section.key + ".refreshToken",
                "the response has none at \(configuration.refreshToken); write its path if the API issues one",
                values: UsualMember.refreshToken.candidates(in: document, redaction)))
    }

    private func missingToken(_ document: JSONValue, _ section: Section, in step: inout DoctorStep) {
        guard let configuration = section.configuration else { return step.fail("the call is not configured") }
        if configuration.credentials == .oauth, document[path: configuration.accessToken] != nil {
            return step.fail(
                "token_type is not Bearer, or a token is not visible ASCII of at most 16384 bytes",
                .init(section.key + ".credentials", "write json or form if this is no OAuth token endpoint"))
        }
        let candidates = UsualMember.accessToken.candidates(in: document, redaction)
        if case .string? = document[path: configuration.accessToken] {
            step.fail(
                "a token is invalid",
                .init(section.key + ".refreshToken", "\(configuration.refreshToken) is configured"))
        } else {
            step.fail(
                "the response has no access token at \(configuration.accessToken)",
                .init(
                    section.key + ".accessToken",
                    "write the path of the access token"
                        + (candidates.isEmpty ? ", with dots into objects, such as data.token" : ""),
                    values: candidates))
            addRefreshToken(document, configuration, section, to: &step)
        }
    }
}

/// The section of an identity call in the configuration.
private struct Section {
    let key: String
    let configuration: IdentityEndpointConfiguration?

    init(_ operation: TokenClientError.Operation, _ upstream: UpstreamConfiguration) {
        let name: String
        switch operation {
        case .refresh: (name, configuration) = ("refresh", upstream.refresh)
        case .user: (name, configuration) = ("user", upstream.user)
        case .revoke: (name, configuration) = ("revoke", upstream.revoke)
        case .signIn, .discovery, .keys, .push, .code, .exchange, .introspect:
            (name, configuration) = ("signIn", upstream.signIn)
        }
        key = "upstreams.\(upstream.name).\(name)"
    }

    var method: String { configuration?.method ?? "" }
    var path: String { configuration?.path ?? "" }
    var format: String { configuration?.credentials.rawValue ?? "" }
    /// Whether the names of keys in the request are configured.
    var hasMembers: Bool { configuration?.credentials == .json || configuration?.credentials == .form }
}
