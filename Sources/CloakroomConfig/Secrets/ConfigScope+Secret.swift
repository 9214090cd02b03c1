import CloakroomCore

extension ConfigScope {
    /// A secret given in the key itself or in the file named by its `…File` key; one layer must not set both.
    func secret(_ name: String, as format: ValueFormat<Secret>, isRequired: Bool = true) -> Secret? {
        let twin = SecretFilesProvider.fileKey(of: name)
        // The order of the reference documentation.
        reading.document(path + [name]) { $0.isSecret = true }
        _ = optional(twin, as: secretFilePath)
        let value = optional(name, as: rejectingReferences(format, to: name), isSecret: true)
        reading.document(path + [twin]) { $0.expectation = Self.secretFile }
        reportIfBothSet(name, twin)
        if isRequired, isPresent, !isSet(name), !isSet(twin) { reading.reportMissing(path + [name]) }
        checkSource(name)
        if let value { recordPlaceholder(value, path + [name]) }
        return value
    }

    /// A list of secrets given in the key itself or in the file named by its `…File` key, one per line.
    /// - Parameters:
    ///   - isPair: Whether an item is `name=value` and only the value is secret.
    ///   - secret: Returns the secret part of an item.
    func secrets<Value>(
        _ name: String, as format: ValueFormat<Value>, isPair: Bool = false, _ secret: (Value) -> Secret
    ) -> [Value]? {
        let twin = SecretFilesProvider.fileKey(of: name)
        reading.document(path + [name]) { $0.isSecret = true }
        _ = optional(twin, as: secretFilePath)
        // Rendering redacts secrets.
        let values = list(name, as: rejectingReferences(format, to: name, isPair: isPair))
        reading.document(path + [twin]) { $0.expectation = Self.secretFile + ", one per line" }
        reportIfBothSet(name, twin)
        checkSource(name)
        // Collector headers may be non-secret, such as a tenant name.
        if !isPair { for value in values ?? [] { recordPlaceholder(secret(value), path + [name]) } }
        return values
    }

    private var secretFilePath: ValueFormat<String> {
        let directory = reading.directory
        return ValueFormat(
            "text", parse: ValueFormat<String>.text.parse, render: { SecretFile.shown($0, in: directory) })
    }

    private static let secretFile = "path of a file that holds the secret"

    /// A format that rejects a variable reference in place of a secret.
    private func rejectingReferences<Value>(
        _ format: ValueFormat<Value>, to name: String, isPair: Bool = false
    ) -> ValueFormat<Value> {
        let twin = (path + [SecretFilesProvider.fileKey(of: name)]).joined(separator: ".")
        let instead =
            "set \(reading.variable(path + [name])) to the secret itself, or name a file that holds it in \(twin)"
        return ValueFormat(
            format.expectation,
            parse: { text throws(ConfigValueError) in
                let secret = isPair ? text.drop { $0 != "=" }.dropFirst() : text[...]
                guard !VariableReference.isOne(secret) else {
                    throw ConfigValueError("must be the secret itself: variable references are not supported", instead)
                }
                return try format.parse(text)
            }, render: format.render)
    }

    private func recordPlaceholder(_ secret: Secret, _ key: [String]) {
        if PlaceholderSecret.isOne(String(decoding: secret.bytes, as: UTF8.self)) { reading.recordPlaceholder(key) }
    }

    /// Warns if other users of the machine can read the source.
    private func checkSource(_ name: String) {
        switch reading.origin(path + [name]) {
        case .secretFile(let file): warnIfReadableByOthers(file, at: name)
        case .flag:
            let twin = SecretFilesProvider.fileKey(of: name)
            warn(
                ConfigValueError(
                    "a secret on the command line stays in the shell's history, and other users can see it while the"
                        + " process starts",
                    "set \(reading.variable(path + [name])), or name a file that holds it in"
                        + " \((path + [twin]).joined(separator: "."))"), at: name)
        case .environment, .file, .defaultValue: break
        }
    }

    private func reportIfBothSet(_ name: String, _ twin: String) {
        for layer in [SourceLayer.flags, .environment, .file] {
            guard reading.isSet(path + [name], in: layer), reading.isSet(path + [twin], in: layer) else { continue }
            let origin: ValueSource? =
                switch layer {
                case .flags: .flag
                case .environment: .environment(reading.variable(path + [twin]))
                case .secretFiles, .openTelemetry, .file: reading.tree[path + [twin]].map { .file($0.value) }
                }
            reading.add(
                ConfigValueError("conflicts with \(name)", "keep one of the two"), key: path + [twin],
                origin: origin ?? .defaultValue
            )
        }
    }
}
