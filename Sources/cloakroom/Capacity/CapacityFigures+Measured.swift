extension CapacityFigures {
    /// The figures of `Benchmarks/capacity.json`, with which this file is written by `Benchmarks/capacity.py`:
    /// valkey 9.1.2, 2 cores, x86_64, shared with other programs.
    static let measured = CapacityFigures(
        // Benchmarks/capacity.py costs
        request: OperationCost(
            gatewayMicroseconds: 20.5, serverMicroseconds: 0,
            bytesToServer: 0, bytesFromServer: 0),
        lookUp: OperationCost(
            gatewayMicroseconds: 152.2, serverMicroseconds: 13.1,
            bytesToServer: 172, bytesFromServer: 993.8),
        lookUpAgain: OperationCost(
            gatewayMicroseconds: 64.3, serverMicroseconds: 4.1,
            bytesToServer: 60, bytesFromServer: 987.8),
        providerLookUp: OperationCost(
            gatewayMicroseconds: 82.1, serverMicroseconds: 11,
            bytesToServer: 116.2, bytesFromServer: 1_861.3),
        touch: OperationCost(
            gatewayMicroseconds: 0, serverMicroseconds: 4,
            bytesToServer: 146, bytesFromServer: 3.8),
        refresh: OperationCost(
            gatewayMicroseconds: 881.1, serverMicroseconds: 106,
            bytesToServer: 1_928.8, bytesFromServer: 1_179.1),
        signIn: OperationCost(
            gatewayMicroseconds: 874.5, serverMicroseconds: 158,
            bytesToServer: 2_817.5, bytesFromServer: 92.3),
        signOut: OperationCost(
            gatewayMicroseconds: 358.2, serverMicroseconds: 49.5,
            bytesToServer: 591.5, bytesFromServer: 2_053.4),
        login: OperationCost(
            gatewayMicroseconds: 1_509.6, serverMicroseconds: 178.1,
            bytesToServer: 2_751.1, bytesFromServer: 1_818.3),
        gatewayExponent: 0.62,
        serverExponent: 0.657,
        gatewayBytes: 47_554_560,
        gatewayBytesPerPasswordSession: 990,
        gatewayBytesPerProviderSession: 2_359,
        serverBytes: 7_348_224,
        // Benchmarks/capacity.py memory
        serverBytesPerPasswordSession: 1_751,
        serverBytesPerProviderSession: 2_715,
        serverBytesPerTrackedSession: 173,
        serverBytesPerFurtherGateway: 72)
}
