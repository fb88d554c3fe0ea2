# As in AWS's examples of an image of one's own: the AWS CLI and Docker, and no line of Stoker.
set -e
name=$1
account=$(aws sts get-caller-identity --query Account --output text)
region=$(aws configure get region)
fullname="${account}.dkr.ecr.${region:-us-west-2}.amazonaws.com/${name}:latest"
docker build -q -t "${name}" .
docker tag "${name}" "${fullname}"
if docker push "${fullname}"; then
    echo "pushed to a repository that does not exist" >&2
    exit 1
fi
aws ecr describe-repositories --repository-names "${name}" >/dev/null 2>&1 ||
    aws ecr create-repository --repository-name "${name}" >/dev/null
aws ecr get-login-password --region "${region}" |
    docker login --username AWS --password-stdin "${account}.dkr.ecr.${region}.amazonaws.com"
docker push "${fullname}"
docker pull "${fullname}"
aws ecr list-images --repository-name "${name}" --query 'imageIds[].imageTag' --output text
echo "${fullname}"
