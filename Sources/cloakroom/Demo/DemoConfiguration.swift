import CloakroomCore
import Crypto
import Foundation
import SwiftASN1
import X509

/// The demo's configuration: the routes of the mock API and of its page, similar to `config/cloakroom.yaml`.
struct DemoConfiguration {
    let port: Int
    let clearPort: Int
    let adminPort: Int
    let apiPort: Int
    let apiToken: String
    let certificateFile: String
    let keyFile: String
    /// A provider that users can sign in with, besides the password at the API; `nil` for none.
    let provider: DemoProvider?

    /// The field in which the mock API receives the user of a provider.
    static let userField = "X-User"

    func configuration() throws -> GatewayConfiguration {
        let loopback = "127.0.0.1"
        let identities = provider.map { [$0.identity] } ?? []
        return GatewayConfiguration(
            listeners: [
                ListenerConfiguration(
                    address: HostAndPort(host: loopback, port: port),
                    tls: ListenerTLSConfiguration(certificateFile: certificateFile, keyFile: keyFile)),
                ListenerConfiguration(address: HostAndPort(host: loopback, port: clearPort)),
            ],
            admin: AdminConfiguration(address: HostAndPort(host: loopback, port: adminPort)),
            upstreams: [upstream],
            routes: try routes(),
            accounts: AccountsConfiguration(
                messages: [
                    .unreachable: "Signing in is not available at the moment. Try again later.",
                    .unauthorized: "The email/password combination is invalid.",
                ],
                publicURL: provider.map { _ in "https://localhost:\(port)" },
                identities: identities.isEmpty ? [] : [.provider(0), .upstream(0)]),
            logging: LoggingConfiguration(level: "notice"), identities: identities)
    }

    private var upstream: UpstreamConfiguration {
        var upstream = UpstreamConfiguration(
            name: "api", targets: [UpstreamTargetConfiguration(HostAndPort(host: "127.0.0.1", port: apiPort))],
            apiToken: APIToken(value: Secret(apiToken)),
            signIn: IdentityEndpointConfiguration(path: "/auth", credentials: .basic),
            refresh: IdentityEndpointConfiguration(path: "/auth/refresh"),
            revoke: IdentityEndpointConfiguration(path: "/auth/revoke"),
            user: IdentityEndpointConfiguration(method: "GET", path: "/user"))
        if provider != nil { upstream.claimHeaders = [ClaimHeader(Self.userField, claim: "sub")] }
        return upstream
    }

    private func routes() throws -> [Route] {
        let signInFirst = "You need to be signed in to watch this episode."
        return [
            try open(
                "episodes", "/episodes", messages: [.failedRequest: "The list of episodes could not be fetched."]),
            try protected("video", "/videos/{id}", messages: [.unauthorized: signInFirst]),
            try protected("user", "/user"),
            // A web page that uses these routes, and its resources.
            try open("page", "/"),
            try open("page-script", "/app.js"),
            try open("page-style", "/app.css"),
            try open("image", "/images/{name}"),
            try protected("media", "/media/{id}", messages: [.unauthorized: signInFirst]),
            // Demonstrates how a slow response is streamed. The recorded requests, `/__mock/requests`, have no route
            // because they contain passwords and tokens. The API's own port serves them to callers with the API token.
            try open("mock-slow", "/__mock/slow"),
        ]
    }

    /// A public route.
    private func open(_ name: String, _ path: String, messages: [ProblemCode: String] = [:]) throws -> Route {
        Route(
            name: name, methods: ["GET"], pattern: try PathPattern(path), requiresAuthorization: false,
            inject: .apiToken, messages: messages)
    }

    /// A route that requires a session.
    private func protected(_ name: String, _ path: String, messages: [ProblemCode: String] = [:]) throws -> Route {
        Route(
            name: name, methods: ["GET"], pattern: try PathPattern(path), requiresAuthorization: true,
            inject: [.apiToken, .bearer], messages: messages, onMissingSession: provider == nil ? .reject : .login)
    }
}

/// The registration of the demo at an OpenID Provider.
struct DemoProvider {
    let name: String
    let issuer: String
    let clientID: String
    let clientSecret: Secret

    /// The mock API receives the token; it is for the user of the claim header only to see how that works.
    var identity: IdentityConfiguration {
        IdentityConfiguration(
            name: name, issuer: issuer,
            client: IdentityClientConfiguration(id: clientID, authentication: .basic(clientSecret)), tokensFor: [0])
    }
}

/// A self-signed certificate for localhost, created for each run.
struct DemoCertificate {
    let certificateFile: String
    let keyFile: String
    private let directory: URL

    /// Creates a key and a certificate in a folder that only this user can read.
    init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "cloakroom-demo-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let key = P256.Signing.PrivateKey()
        let name = try DistinguishedName { CommonName("localhost") }
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: Certificate.PublicKey(key.publicKey),
            notValidBefore: Date().addingTimeInterval(-3_600), notValidAfter: Date().addingTimeInterval(30 * 86_400),
            issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(digitalSignature: true, keyCertSign: true))
                try ExtendedKeyUsage([.serverAuth])
                SubjectAlternativeNames([
                    .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
                    .ipAddress(ASN1OctetString(contentBytes: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
                ])
            }, issuerPrivateKey: Certificate.PrivateKey(key))
        let certificateURL = directory.appending(path: "localhost.crt")
        let keyURL = directory.appending(path: "localhost.key")
        try Data(certificate.serializeAsPEM().pemString.utf8).write(to: certificateURL)
        try Data(key.pemRepresentation.utf8).write(to: keyURL)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: keyURL.path)
        certificateFile = certificateURL.path
        keyFile = keyURL.path
    }

    /// Deletes the files.
    func remove() {
        try? FileManager.default.removeItem(at: directory)
    }
}
