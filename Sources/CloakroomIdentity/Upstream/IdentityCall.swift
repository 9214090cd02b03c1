import AsyncHTTPClient
import CloakroomCore
import FoundationEssentials
import NIOCore
import NIOHTTP1

/// One call to the identity upstream, ready to be sent to any of its targets.
struct IdentityRequest: Sendable {
    /// The field or the body that carries the credential.
    enum Credential: Sendable {
        /// The whole value of `Authorization`.
        case authorization(Secret)
        /// A JSON body.
        case json(Secret)
    }

    let configuration: IdentityEndpointConfiguration
    let credential: Credential
    let apiToken: APIToken?
    let traceparent: String?
    /// Whether the call is safe to send twice. A call that spends a token is not.
    var isIdempotent = true
    /// Whether the body of a 4xx response is read: it may hold an OAuth error code.
    var readsErrors = false
    /// Whether the call follows directly after another one, such as the user's data after a sign-in.
    var isFollowUp = false

    func request(to target: IdentityTarget) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: target.url(configuration.path))
        request.method = HTTPMethod(rawValue: configuration.method)
        request.headers.add(name: "Host", value: target.host)
        request.headers.add(name: "Accept", value: "application/json")
        if let apiToken {
            request.headers.replaceOrAdd(name: apiToken.header, value: text(apiToken.value))
        }
        if let traceparent {
            request.headers.add(name: "traceparent", value: traceparent)
        }
        switch credential {
        case .authorization(let value):
            request.headers.replaceOrAdd(name: "Authorization", value: text(value))
        case .json(let document):
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(bytes: document.bytes))
        }
        return request
    }

    private func text(_ secret: Secret) -> String {
        String(decoding: secret.bytes, as: UTF8.self)
    }
}

extension IdentityRequest.Credential {
    /// Creates a sign-in call with an e-mail address and a password in the configured format. A sign-in has no token
    /// yet, so `bearer` means `basic`.
    static func signIn(_ credentials: Credentials, configuration: IdentityEndpointConfiguration) -> Self? {
        switch configuration.credentials {
        case .basic, .bearer:
            let pair = Array(credentials.email.utf8) + [UInt8(ascii: ":")] + credentials.password.bytes
            return .authorization(Secret("Basic " + Data(pair).base64EncodedString()))
        case .json:
            return json([
                "email": credentials.email,
                "password": String(decoding: credentials.password.bytes, as: UTF8.self),
            ])
        }
    }

    /// Creates a refresh call with a refresh token in the configured format. There is no user name, so `basic` means
    /// `bearer`.
    static func refreshToken(_ refreshToken: Secret, configuration: IdentityEndpointConfiguration) -> Self? {
        switch configuration.credentials {
        case .basic, .bearer: .authorization(Secret(bytes: TokenResponse.bearerPrefix + refreshToken.bytes))
        case .json: json(["refreshToken": String(decoding: refreshToken.bytes, as: UTF8.self)])
        }
    }

    private static func json(_ members: [String: String]) -> Self? {
        guard let document = try? JSONEncoder().encode(members) else { return nil }
        return .json(Secret(bytes: Array(document)))
    }
}
